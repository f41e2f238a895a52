"""Test programs compiled for chips that need not be attached. Needs the option --topology."""

import pytest

# This module imports the extension `program`, without which nothing can be compiled either.
pytest.importorskip("busbw.extensions.compiled.worker")


def test_compiled(busbw_compiled):
    """A program compiles, fits in memory, and has the collective and algorithm of its baseline."""
    assert not busbw_compiled.failed
