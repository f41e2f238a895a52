"""The releases of a package from one to another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.version import Version

from busbw.extensions.bisect.bisection import releases_between
from busbw.extensions.stacks.environments import StackError
from tests.helpers.wheels import use_index, wheel

PACKAGE = "busbw-made-up"


@pytest.mark.slow
def test_release_candidates_are_listed_only_if_the_good_or_bad_release_is_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("0.4.30", "0.7.0", "0.7.1rc1", "0.7.1", "0.9.0", "0.9.0.1", "0.10.2"):
        wheel(tmp_path, PACKAGE, version)
    use_index(monkeypatch, tmp_path)

    def between(first: str, last: str) -> tuple[str, ...]:
        return releases_between(PACKAGE, Version(first), Version(last), sys.executable)

    assert between("0.7.0", "0.9.0.1") == ("0.7.0", "0.7.1", "0.9.0", "0.9.0.1")
    assert between("0.7.1rc1", "0.9") == ("0.7.1rc1", "0.7.1", "0.9.0")
    with pytest.raises(StackError, match=f"no version of {PACKAGE}==0.12"):
        between("0.7.0", "0.12.0")
