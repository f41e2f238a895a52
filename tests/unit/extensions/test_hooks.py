"""The functions of extensions that the core calls by name."""

from __future__ import annotations

from pathlib import Path

from busbw import extensions


def test_the_health_counters_alone_may_doubt_that_a_case_is_slower() -> None:
    """A doubt makes REGRESSED NOISY, which does not fail."""
    paths = Path(extensions.__file__).parent.rglob("*.py")
    assert [path.name for path in paths if "doubt=" in path.read_text()] == ["health.py"]
