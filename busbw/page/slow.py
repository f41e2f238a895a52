"""Who is slow as a page: the answer, what each pair of hosts takes, and what each host does."""

from __future__ import annotations

import statistics

from busbw.model.words import plural
from busbw.slow.answer import Answer as Slow

from .chart import Gap, Heatmap, HeatmapCell, HeatmapRow
from .content import Answer, Figure, Listing, Page, Section, Text, filled

# Of more hosts a reader tells no pair from the next one.
_MOST = 64
# Noise of a few percent is one colour; what counts is a third, or twice as long.
_EDGES = (0.05, 0.15, 0.35, 1.0)


def slow_page(found: Slow) -> Page:
    """With a picture of pairs, where hosts met in pairs and are not too many to be told apart."""
    first, *others = found.sentences()
    word = "SLOW" if found.is_anybody else "NOBODY"
    pairs = {group for group in found.found.times_s if len(group) == 2}
    figures = (Figure(picture=_met(found)),) if pairs and len(found.names) <= _MOST else ()
    return Page(
        title=f"Who is slow of {plural(len(found.names), 'host')}",
        parts=(Answer(word=word, text=first, is_good=not found.is_anybody),),
        sections=filled(
            Section(heading="What else was found", parts=tuple(Text(text=one) for one in others)),
            Section(heading="Pairs", parts=figures),
            Section(heading="Hosts", parts=(Listing(table=found.table()),)),
        ),
    )


def _met(found: Slow) -> Heatmap:
    """Of every quantity a square: a row is a host, a column the one that it was measured with."""
    title = "Time of each pair of hosts over the median of all pairs"
    return Heatmap(
        title=title,
        subtitle="A row of one colour is a slow host, two single cells are a slow link.",
        columns=tuple(found.names),
        rows=tuple(
            HeatmapRow(group=quantity, label=name, cells=_cells(found, quantity, host))
            for quantity in found.found.fits
            for host, name in enumerate(found.names)
        ),
        edges=_EDGES,
        description=" ".join([f"{title}.", *(f"{one}." for one in found.sentences())]),
    )


def _cells(found: Slow, quantity: str, host: int) -> tuple[HeatmapCell, ...]:
    times_s = {who: times[quantity] for who, times in found.found.times_s.items()}
    middle = statistics.median(times_s.values())
    met = (times_s.get((min(host, other), max(host, other))) for other in range(len(found.names)))
    return tuple(Gap.MISSING if time_s is None else time_s / middle for time_s in met)
