"""Training steps, and the collectives inside them measured alone. Only with -m training."""

import pytest


@pytest.mark.training(step="dense")
def test_dense_step(busbw_verdict):
    """A data-parallel step whose gradient is this payload is as fast as its baseline."""
    assert not busbw_verdict.failed


@pytest.mark.training(step="cnn")
def test_strategy(busbw_verdict):
    """A step of a small net under this strategy of tf.distribute is as fast as its baseline."""
    assert not busbw_verdict.failed


@pytest.mark.training(step="dense", alone=True)
def test_all_reduce_alone(busbw_verdict):
    """The step's all-reduce by itself, measured in the same session, is as fast as its baseline."""
    assert not busbw_verdict.failed
