"""How the collectives of two programs differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .worker_values import Difference, Use, Uses

_MOST_PLACES = 2


def collectives_changed(before: Uses, now: Uses) -> tuple[Difference, ...]:
    """Return how the collectives of two programs differ, in order of bytes.

    Collectives are the same that move the same along the same axes. Names, order and line numbers
    move nothing; the lines say where a change is, or where a collective was that is gone.
    """
    sides: dict[str, tuple[list[Use], list[Use]]] = {}
    for side, uses in enumerate((before, now)):
        for use in uses:
            sides.setdefault(use.name, ([], []))[side].append(use)
    largest = sorted(sides.items(), key=lambda side: -(*side[1][0], *side[1][1])[0].payload_bytes)
    return tuple(change for name, (a, b) in largest for change in _changes_of(name, a, b))


def _changes_of(name: str, before: Sequence[Use], now: Sequence[Use]) -> Iterator[Difference]:
    where = _places(before, now)
    for words in (_times, _starts, _algorithm):
        was, has = words(before), words(now)
        if was != has:
            # Such as 12 -> 24 per step: the unit of both is written once.
            unit = has.partition(" ")[2]
            was = was.removesuffix(f" {unit}") if has and was else was
            yield Difference(name=name, before=was, now=f"{has or 'none'}{where}", fails=True)
        if not before or not now:
            return


def _times(uses: Sequence[Use]) -> str:
    kinds = dict.fromkeys((use.at_most, use.per_iteration) for use in uses)
    alike = ([use for use in uses if (use.at_most, use.per_iteration) == kind] for kind in kinds)
    counts = [(some[0], sum(use.times for use in some)) for some in alike]
    return ", ".join(sorted(first.times_text(count) for first, count in counts))


def _starts(uses: Sequence[Use]) -> str:
    ways = {use.asynchronous for use in uses}
    words = {True: "asynchronous", False: "synchronous"}
    if len(ways) < 2:
        return words[ways.pop()]
    counts = (
        f"{sum(o.times for o in uses if o.asynchronous is way)} {words[way]}" for way in words
    )
    return ", ".join(counts)


def _algorithm(uses: Sequence[Use]) -> str:
    texts = sorted(
        {" ".join(use.algorithm[name] for name in sorted(use.algorithm)) for use in uses}
    )
    return "; ".join(filter(None, texts))


def _places(before: Sequence[Use], now: Sequence[Use]) -> str:
    """Return the lines that only one side has, or else the first lines of both sides."""
    counts_before, counts_now = Counter[str](), Counter[str]()
    for counts, uses in ((counts_before, before), (counts_now, now)):
        for use in uses:
            counts[use.source] += use.times
    moved = [
        line for line in {**counts_now, **counts_before} if counts_before[line] != counts_now[line]
    ]
    places = list(filter(None, moved or counts_now))
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return f" ({', '.join(places[:_MOST_PLACES])}{more})" if places else ""
