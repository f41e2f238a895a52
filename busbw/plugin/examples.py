"""The examples that training under a strategy learns from: handwritten digits of scikit-learn.

The only room that asks scikit-learn for anything. Workers have no package of ours: they get a file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import pytest

from busbw.frameworks import FRAMEWORKS
from busbw.model import Case, OwnProcesses

_NAME = "digits.bin"


def examples_for(cases: Iterable[Case], folder: Path) -> str:
    """The path of the file of examples in `folder`, written if any of `cases` learns; else "".

    Raises pytest.UsageError where scikit-learn, which the digits ship with, is not installed.
    """
    if not any(
        isinstance(case.workload, OwnProcesses) and FRAMEWORKS[case.framework].learns_digits
        for case in cases
    ):
        return ""
    if importlib.util.find_spec("sklearn") is None:
        raise pytest.UsageError(
            "busbw: training under a strategy learns the handwritten digits that come with "
            'scikit-learn, which is not installed here; pip install "busbw[tf]", or leave it out: '
            '-k "not strategy"'
        )
    path = folder / _NAME
    path.write_bytes(_digits())
    return str(path)


def _digits() -> bytes:
    """1797 digits of 8 x 8 pixels from 0 to 16, each followed by its label, each a byte."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images, labels = found.images.astype("uint8"), found.target.astype("uint8")
    return b"".join(
        image.tobytes() + bytes([int(label)]) for image, label in zip(images, labels, strict=True)
    )
