"""The slow hosts and links of a cluster as a page, with a heat map of the pairs of hosts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from busbw.extensions.stragglers.answer import Answer
from busbw.model.words import plural
from busbw.report.outline import Outline, Statement

from .figures import HeatMap, Row, bin_of
from .page import Chapter, Page, Section

# With more hosts a reader tells no pair from the next.
_MOST = 64
_EDGES = (0.05, 0.15, 0.35, 1.0)


def slow_page(answer: Answer) -> Page:
    """Return the page of an answer; it has a figure of pairs where hosts were measured in pairs."""
    first, *others = answer.sentences()
    word = "SLOW" if answer.is_anybody else "NONE_SLOW"
    statement = Statement(word=word, text=first, is_good=not answer.is_anybody)
    title = f"Slow hosts among {plural(len(answer.names), 'host')}"
    rows = list(_cells(answer)) if len(answer.names) <= _MOST else []
    figure = HeatMap(
        title="Time of each pair of hosts over the median of all pairs",
        subtitle="A row of one color is a slow host, two single cells are a slow link.",
        rows=rows,
        headings={"series": "quantity", "row": "host", "x": "with", "y": "ratio"},
        edges=_EDGES,
    )
    sections = (
        Section(heading="Findings", texts=[(sentence, ()) for sentence in others]),
        Section(heading="Pairs", figures=[figure] if rows else []),
        Section(heading="Hosts", tables=[answer.table()]),
    )
    words = Outline(title=title, statements=(statement,), facts={}, changes=())
    return Page(title=title, chapters=[Chapter(words=words, sections=sections)])


def _cells(answer: Answer) -> Iterator[Row]:
    pairs = {hosts: times for hosts, times in answer.found.times_s.items() if len(hosts) == 2}
    for quantity in answer.found.fits:
        median_s = statistics.median(times[quantity] for times in pairs.values()) if pairs else 1.0
        for hosts, times in sorted(pairs.items()):
            ratio = times[quantity] / median_s
            first, second = (answer.names[host] for host in hosts)
            for row, column in ((first, second), (second, first)):
                cell = {"series": quantity, "row": row, "x": column, "y": ratio}
                yield {**cell, "bin": bin_of(ratio, _EDGES)}
