"""The releases of a package, and which of them lie between two."""

from __future__ import annotations

import pytest

from busbw.bisect.releases import ReleaseError, Releases

FOUND = Releases(
    package="jaxlib",
    versions=("0.4.30", "0.7.0", "0.7.1rc1", "0.7.1", "0.9.0", "0.9.0.1", "0.10.2"),
    foreign=("0.4.20", "0.8.0rc1", "0.8.0", "0.12.0"),
)


def test_final_releases_lie_between_and_candidates_where_they_are_asked_for() -> None:
    assert FOUND.between("0.7.0", "0.9.0.1") == ("0.7.0", "0.7.1", "0.9.0", "0.9.0.1")
    assert FOUND.between("0.7.0", "0.7.1", pre=True) == ("0.7.0", "0.7.1rc1", "0.7.1")
    assert FOUND.between("0.7.1rc1", "0.9.0") == ("0.7.1rc1", "0.7.1", "0.9.0")


def test_those_of_another_python_are_named_where_they_lie_between() -> None:
    assert FOUND.elsewhere("0.7.0", "0.10.2") == ("0.8.0",)
    assert FOUND.elsewhere("0.7.0", "0.10.2", pre=True) == ("0.8.0rc1", "0.8.0")
    assert FOUND.elsewhere("0.4.30", "0.7.0") == ()


@pytest.mark.parametrize(
    ("first", "last", "sentence"),
    [
        ("0.7.0", "0.12.0", "jaxlib 0.12.0: it needs another Python; --python=PYTHON builds with"),
        ("0.7.9", "0.9.0", "jaxlib 0.7.9: the index has no such release; the nearest ones are "),
        ("no", "0.9.0", "jaxlib no: the index has no such release"),
        ("0.9.0", "0.7.0", "jaxlib: 0.9.0 is not older than 0.7.0"),
        ("0.9.0", "0.9.0", "jaxlib: 0.9.0 is not older than 0.9.0"),
    ],
)
def test_what_is_no_row_of_releases_is_refused(first: str, last: str, sentence: str) -> None:
    with pytest.raises(ReleaseError, match=sentence):
        FOUND.between(first, last)
