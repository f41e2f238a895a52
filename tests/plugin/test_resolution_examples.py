"""The file of examples for training under strategies."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from busbw.model.training import CNN, EXAMPLE_BYTES
from busbw.plugin import resolution
from tests import build

LEARNS = build.case(framework="tensorflow", step=CNN)


def test_nothing_is_written_where_nothing_is_learned(tmp_path: Path) -> None:
    others = [build.case(), build.case(framework="fake", step=CNN), build.case(step="dense")]
    assert resolution.examples_for(others, tmp_path) == ""
    assert not list(tmp_path.iterdir())


def test_each_example_is_its_pixels_and_its_label(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    content = Path(resolution.examples_for([LEARNS], tmp_path)).read_bytes()
    count, rest = divmod(len(content), EXAMPLE_BYTES)
    assert (count, rest) == (1797, 0)
    labels = content[EXAMPLE_BYTES - 1 :: EXAMPLE_BYTES]
    assert labels[:12] == bytes([*range(10), 0, 1])
    # The first one is a nought: ink around, none in the middle.
    assert list(content[2 * 8 : 3 * 8]) == [0, 3, 15, 2, 0, 11, 8, 0]
    assert max(content) == 16


def test_without_scikit_learn_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(pytest.UsageError, match=r'pip install "busbw\[tf\]", or leave it out'):
        resolution.examples_for([LEARNS], tmp_path)
