"""The collectives of a program, compared with those it had: what came, went, moved or waits.

Collectives are the same that move the same along the same axes. Names, order and line numbers move
nothing; the lines say where a change is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from busbw.model.program import Use, Uses
from busbw.model.verdict import Difference

_MOST_PLACES = 2


def collectives_changed(before: Uses, now: Uses) -> tuple[Difference, ...]:
    """In order of bytes. What is no longer there is at the line where it was."""
    sides: dict[str, tuple[list[Use], list[Use]]] = {}
    for side, uses in enumerate((before, now)):
        for use in uses:
            sides.setdefault(use.name, ([], []))[side].append(use)
    largest = sorted(sides.items(), key=lambda one: -(*one[1][0], *one[1][1])[0].payload_bytes)
    return tuple(one for name, (a, b) in largest for one in _of_one(name, a, b))


def _of_one(name: str, before: Sequence[Use], now: Sequence[Use]) -> Iterator[Difference]:
    where = _places(before, now)
    for words in (_times, _starts, _algorithm):
        was, has = words(before), words(now)
        if was != has:
            # Such as 12 -> 24 per step: what both end with is said once.
            unit = has.partition(" ")[2]
            was = was.removesuffix(f" {unit}") if has and was else was
            yield Difference(what=name, before=was, now=f"{has or 'none'}{where}", fails=True)
        if not before or not now:
            return


def _times(uses: Sequence[Use]) -> str:
    kinds = dict.fromkeys((one.at_most, one.per_iteration) for one in uses)
    alike = ([one for one in uses if (one.at_most, one.per_iteration) == kind] for kind in kinds)
    counts = [(some[0], sum(one.times for one in some)) for some in alike]
    return ", ".join(sorted(first.times_text(count) for first, count in counts))


def _starts(uses: Sequence[Use]) -> str:
    ways = {one.asynchronous for one in uses}
    words = {True: "asynchronous", False: "synchronous"}
    if len(ways) < 2:
        return words[ways.pop()]
    counts = (
        f"{sum(o.times for o in uses if o.asynchronous is way)} {words[way]}" for way in words
    )
    return ", ".join(counts)


def _algorithm(uses: Sequence[Use]) -> str:
    found = sorted(
        {" ".join(one.algorithm[name] for name in sorted(one.algorithm)) for one in uses}
    )
    return "; ".join(filter(None, found))


def _places(before: Sequence[Use], now: Sequence[Use]) -> str:
    """Return the lines that only one side has; if there are none, the first lines of both sides."""
    then, there = Counter[str](), Counter[str]()
    for counts, uses in ((then, before), (there, now)):
        for one in uses:
            counts[one.source] += one.times
    moved = [one for one in {**there, **then} if then[one] != there[one]]
    found = list(filter(None, moved or there))
    more = f" and {len(found) - _MOST_PLACES} more" if len(found) > _MOST_PLACES else ""
    return f" ({', '.join(found[:_MOST_PLACES])}{more})" if found else ""
