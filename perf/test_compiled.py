"""The same programs compiled for chips that need not be attached. Only with --topology."""

import pytest

# This module imports the extension `program`, which is needed, too.
pytest.importorskip("busbw.extensions.compiled.worker_values")


def test_compiled(busbw_compiled):
    """It compiles, fits in memory, and has the same collective and algorithm as its baseline."""
    assert not busbw_compiled.failed
