"""Search a sequence of releases for the first release that has the problem of the last release."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class Status(enum.StrEnum):
    """Whether a release lacks the problem, has the problem, or cannot be tested."""

    GOOD = "good"
    BAD = "bad"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """The last release without the problem, and the first release with the problem.

    `untestable` are the releases between the two, which cannot be tested.
    """

    last_good_release: str
    first_bad_release: str
    untestable: tuple[str, ...]


def search_releases(releases: Sequence[str], test_release: Callable[[str], Status]) -> SearchResult:
    """Return where in the sequence of releases the problem begins.

    The first of the `releases` is good and the last is bad; neither is tested. `test_release`
    returns the status of another release, and is called at most once for each release. If a release
    is untestable, the release nearest to it is tested instead.
    """
    low, high = 0, len(releases) - 1
    untestable: set[int] = set()
    while candidates := set(range(low + 1, high)) - untestable:
        middle = min(candidates, key=lambda index: (abs(2 * index - low - high), index))
        status = test_release(releases[middle])
        if status is Status.GOOD:
            low = middle
        elif status is Status.BAD:
            high = middle
        else:
            untestable.add(middle)
    between = tuple(releases[low + 1 : high])
    return SearchResult(
        last_good_release=releases[low], first_bad_release=releases[high], untestable=between
    )
