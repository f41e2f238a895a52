"""The functions of extensions that the core calls by name."""

from __future__ import annotations

from pathlib import Path

from busbw import extensions


def test_only_the_extension_of_health_counters_can_make_a_regressed_case_noisy() -> None:
    """Turn REGRESSED into NOISY, which does not fail, only by a finding with `doubt`."""
    paths = Path(extensions.__file__).parent.rglob("*.py")
    assert [path.name for path in paths if "doubt=" in path.read_text()] == ["findings.py"]
