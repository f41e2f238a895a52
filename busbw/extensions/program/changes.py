"""Compare the collectives of two programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .worker_values import CollectiveUse, CollectiveUses, Difference

_MOST_LINES = 2


def collective_differences(before: CollectiveUses, now: CollectiveUses) -> tuple[Difference, ...]:
    """Return the differences between the collectives of two programs, the largest payload first.

    Collectives with the same kind, dtype, payload and groups are compared with each other. A
    different order, name or line number is not a difference. Line numbers only show where a
    collective was added, changed or removed.
    """
    sides: dict[str, tuple[list[CollectiveUse], list[CollectiveUse]]] = {}
    for side, uses in enumerate((before, now)):
        for use in uses:
            sides.setdefault(use.name, ([], []))[side].append(use)
    largest = sorted(sides.items(), key=lambda side: -(*side[1][0], *side[1][1])[0].payload_bytes)
    return tuple(
        change for name, (a, b) in largest for change in _differences_of_collective(name, a, b)
    )


def _differences_of_collective(
    name: str, before: Sequence[CollectiveUse], now: Sequence[CollectiveUse]
) -> Iterator[Difference]:
    """Yield the differences of a collective: how often it runs, how it starts, and its algorithm.

    If only a single program has the collective `name`, only the number of runs differs.
    """
    lines = _lines_text(before, now)
    for words in (_times_text, _asynchrony_text, _algorithm_text):
        was, has = words(before), words(now)
        if was != has:
            # The unit of both numbers is written once, as in "12 -> 24 per step".
            unit = has.partition(" ")[2]
            was = was.removesuffix(f" {unit}") if has and was else was
            yield Difference(name=name, before=was, now=f"{has or 'none'}{lines}", fails=True)
        if not before or not now:
            return


def _times_text(uses: Sequence[CollectiveUse]) -> str:
    kinds = dict.fromkeys((use.at_most, use.per_iteration) for use in uses)
    alike = ([use for use in uses if (use.at_most, use.per_iteration) == kind] for kind in kinds)
    counts = [(some[0], sum(use.times for use in some)) for some in alike]
    return ", ".join(sorted(first.times_text(count) for first, count in counts))


def _asynchrony_text(uses: Sequence[CollectiveUse]) -> str:
    ways = {use.is_asynchronous for use in uses}
    words = {True: "asynchronous", False: "synchronous"}
    if len(ways) < 2:
        return words[ways.pop()]
    counts = (
        f"{sum(o.times for o in uses if o.is_asynchronous is way)} {words[way]}" for way in words
    )
    return ", ".join(counts)


def _algorithm_text(uses: Sequence[CollectiveUse]) -> str:
    texts = sorted(
        {" ".join(use.algorithm[name] for name in sorted(use.algorithm)) for use in uses}
    )
    return "; ".join(filter(None, texts))


def _lines_text(before: Sequence[CollectiveUse], now: Sequence[CollectiveUse]) -> str:
    """Return the source lines whose number of runs changed, such as `` (train.py:88)``.

    If no line's number changed, return the lines of the program `now`. Only the first lines are
    named; the text is empty if no line is known.
    """
    counts_before, counts_now = Counter[str](), Counter[str]()
    for counts, uses in ((counts_before, before), (counts_now, now)):
        for use in uses:
            counts[use.source] += use.times
    moved = [
        line for line in {**counts_now, **counts_before} if counts_before[line] != counts_now[line]
    ]
    places = list(filter(None, moved or counts_now))
    more = f" and {len(places) - _MOST_LINES} more" if len(places) > _MOST_LINES else ""
    return f" ({', '.join(places[:_MOST_LINES])}{more})" if places else ""
