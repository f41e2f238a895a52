"""`python -m busbw estimate`: what gradient synchronisation should cost a training step.

MB is 10^6 bytes in the table, as the rates of links are stated; the document has bytes and seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from busbw.commands import name_of, parsed, shown
from busbw.model.words import plural, seconds_text
from busbw.report.renderers import rendered
from busbw.report.table import Column, Table, attributes, rows_of
from busbw.studies import Study

from .methods import Level, Link
from .question import (
    COMPUTE,
    COUNT,
    DTYPE_BYTES,
    EFFICIENCY,
    MODELS,
    RATE,
    SHARE,
    SIZE,
    memory_by_optimizer,
    question_of,
    ranks,
    whole_numbers,
)
from .sums import Estimated, Estimates, Question, estimates

ORDER = 3
SCHEMA = 1

_DESCRIPTION = """
What gradient synchronisation should cost a training step, by formula: for each placement of the
ranks and each method the traffic of a rank, the time of communication and of the step, and the
efficiency, best first. docs/studies.md lists formulas, models and links. MB is 10^6 bytes, MiB
2^20; rates are those of one direction.
"""
_LINK = f"a link's name or {RATE.words}, one direction, and perhaps its latency: 150GB/s,5us"
_SERVERS = "a comma list of how many parameter servers (default: 1, and as many as ranks)"
_OVERLAP = (
    "the share of --compute, at its end, beside which gradients can be exchanged (default: 0)"
)
# Name, how a value is parsed, what stands for it in the help, help.
_GRADIENTS: Sequence[tuple[str, Callable[[str], object], str, str]] = (
    ("--model", str, "NAME", f"a model by name: {', '.join(MODELS)}"),
    ("--parameters", parsed(COUNT), "N", f"{COUNT.words} (10^6)"),
    ("--shapes", Path, "FILE", 'JSON of shapes in the order of the forward pass: {"w": [512, 2]}'),
    ("--gradient-bytes", parsed(SIZE), "SIZE", SIZE.words),
)
_OTHERS: Sequence[tuple[str, Callable[[str], object], str, str]] = (
    ("--dtype", name_of(DTYPE_BYTES), shown(DTYPE_BYTES), "type of a gradient (default: float32)"),
    ("--bucket", parsed(SIZE), "SIZE", "in buckets such as 25MiB (default: all at once)"),
    ("--servers", parsed(whole_numbers), "K", _SERVERS),
    ("--ranks", parsed(ranks), "N", "how many, with --curve its own"),
    ("--hosts", parsed(whole_numbers), "H", "a comma list of how many, in addition to one"),
    ("--bandwidth", str, "LINK", f"one link for everything: {_LINK}"),
    ("--intra", str, "LINK", "inside a host, of a rank: the same"),
    ("--inter", str, "LINK", "between hosts, of a host: the same"),
    ("--curve", Path, "FILE", "instead of links what was measured: --results or a baseline"),
    ("--curve-case", str, "WORDS", 'which curve in it, by words such as "jax float16"'),
    ("--compute", parsed(COMPUTE), "TIME", "forward and backward pass of one rank, such as 0.55s"),
    ("--overlap", parsed(SHARE), "SHARE", _OVERLAP),
    ("--want-efficiency", parsed(EFFICIENCY), "P", "also the bandwidth that it needs, such as 0.9"),
)


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Each is checked by itself and not yet together."""
    group = parser.add_argument_group("what is exchanged (one of)")
    gradients = group.add_mutually_exclusive_group(required=True)
    for options, add in ((_GRADIENTS, gradients.add_argument), (_OTHERS, parser.add_argument)):
        for name, parse, metavar, words in options:
            add(name, type=parse, metavar=metavar, help=words)
    half = "both directions of a link share its rate"
    parser.add_argument("--half-duplex", action="store_true", help=half)


def _document(question: Question, answer: Estimates) -> dict[str, object]:
    """Plain dicts, lists, strings, numbers and None; the unit is in the name."""
    return {
        "schema": SCHEMA,
        **dataclasses.asdict(question.step),
        "buckets": len(question.step.buckets),
        **attributes(question, "name", "parameters", "dtype", "wanted_efficiency"),
        "links": [
            {"level": level.value, **dataclasses.asdict(link)} for level, link in _used(question)
        ],
        "memory_bytes_per_parameter": memory_by_optimizer(question.dtype),
        "notes": answer.notes,
        "estimates": [dataclasses.asdict(row) for row in answer.rows],
    }


def _page(question: Question, answer: Estimates) -> list[str]:
    """The head, a table with a line for each row, and the notes."""
    wanted = question.wanted_efficiency
    last = "bottleneck" if wanted is None else f"bottleneck, and what it needs for {wanted:g}"
    table = Table(
        columns=(
            Column("method", "method", width=34, left=True),
            Column("hosts", "hosts", width=7),
            Column("traffic_bytes", "MB a rank", text=_mb, width=11),
            Column("communication_s", "communication", text=seconds_text, width=13),
            Column("step_s", "step", text=seconds_text, width=10),
            Column("efficiency", "efficiency", text="{:.4f}".format, width=10),
            Column("last", last, left=True, gap=2),
        ),
        rows=rows_of(
            {**dataclasses.asdict(row), "last": _last(row, wanted)} for row in answer.rows
        ),
    )
    notes = [f"note: {note}" for note in answer.notes]
    return [*_head(question), "", *rendered("text", table), *([""] if notes else []), *notes]


def _last(row: Estimated, wanted: float | None) -> str:
    needs = ""
    if wanted is not None:
        rate = row.wanted_bytes_per_s
        needs = "no bandwidth suffices" if rate is None else f"{rate / 1e6:.0f} MB/s"
    return "; ".join(filter(None, (row.bottleneck, row.how, needs)))


def _mb(count: float) -> str:
    """Two decimals, or three digits where there is less than one MB."""
    return f"{count / 1e6:.2f}" if count >= 1e6 else f"{count / 1e6:.3g}"


def _head(question: Question) -> Iterator[str]:
    asked, parameters = question.step, question.parameters
    what = f"{question.name}: {_mb(asked.payload_bytes)} MB of gradients"
    if parameters is not None:
        what += f", {parameters} parameters in {question.dtype}"
    if asked.buckets:
        what += f", in {plural(len(asked.buckets), 'bucket')}"
    yield what + "; MB is 10^6 bytes, a rank sends and takes as much"
    if asked.compute_s is not None:
        shared = f", {100 * asked.overlap:g} % of it beside communication" if asked.overlap else ""
        yield f"computing: {seconds_text(asked.compute_s)} a step{shared}"
    kept = memory_by_optimizer(question.dtype)
    if parameters is not None and kept:
        each = (f"{name} {size} ({size * parameters / 1e9:.2f} GB)" for name, size in kept.items())
        yield f"memory, bytes a parameter for weights, gradients and state: {', '.join(each)}"
    for level, link in _used(question):
        where = {Level.INTRA: "inside a host", Level.INTER: "between hosts"}[level]
        duplex = "each direction" if link.full_duplex else "both directions together"
        rate = f"{link.bytes_per_s / 1e6:.6g} MB/s {duplex}"
        yield f"{where}: {link.name}, {rate}, {seconds_text(link.latency_s)} a step"


def _used(question: Question) -> list[tuple[Level, Link]]:
    """The links of the levels that the layouts have."""
    inside = any(question.ranks > hosts for hosts in question.hosts)
    used = {Level.INTRA: inside, Level.INTER: any(hosts > 1 for hosts in question.hosts)}
    return [(level, link) for level, link in question.links.items() if used[level]]


add_to = Study(
    name="estimate",
    help="what gradient synchronisation should cost a training step",
    description=_DESCRIPTION,
    add_options=_add_options,
    question=question_of,
    sums=estimates,
    page=_page,
    document=_document,
    documented=False,
).add_to
