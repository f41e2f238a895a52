"""The functions of extensions that the core calls by name."""

from __future__ import annotations

from pathlib import Path

from busbw import extensions
from busbw.extensions import hooks


def test_a_hook_is_the_function_that_an_extension_declares() -> None:
    (build,) = hooks("build_references")
    assert build.__module__ == "busbw.extensions.stacks.session"
    assert build.__name__ == "build_references"
    assert hooks("none") == []


def test_the_health_counters_alone_may_doubt_that_a_case_is_slower() -> None:
    """A doubt makes REGRESSED NOISY, which does not fail."""
    paths = Path(extensions.__file__).parent.rglob("*.py")
    assert [path.name for path in paths if "doubt=" in path.read_text()] == ["health.py"]
