"""Test collectives. All cases are measured before the first test; each test reads its verdict."""


def test_collective(busbw_verdict):
    """A collective fits in memory and is as fast as its baseline."""
    assert not busbw_verdict.failed
