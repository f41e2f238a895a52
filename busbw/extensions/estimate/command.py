"""`busbw estimate`: what gradient synchronization should cost a training step.

Each method at each layout is a row, best first. Ts is a step's computing alone (forward and
backward), Tt its communication, P the efficiency. MB is 10^6 bytes in the table, as the rates of
links are stated; the document has bytes and seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator

from busbw.baselines.document import BaselineError
from busbw.commands import Commands, add_command, add_options, usage_error
from busbw.extensions.estimate.answer import Answer, Estimated, estimates
from busbw.extensions.estimate.methods import Level, Link, UnsupportedLayoutError
from busbw.extensions.estimate.quantities import (
    COMPUTE,
    COUNT,
    EFFICIENCY,
    RATE,
    SHARE,
    SIZE,
    ranks,
    whole_numbers,
)
from busbw.extensions.estimate.question import (
    DTYPE_BYTES,
    MODELS,
    Question,
    QuestionError,
    memory_by_optimizer,
    question_of,
)
from busbw.model.words import plural, seconds_text
from busbw.report.renderers import rendered
from busbw.report.table import Column, Table, attributes, rows_of
from busbw.session import forms
from busbw.session.option import Option, file_option

ORDER = 3
SCHEMA = 1

_DESCRIPTION = """
Estimate by formula what gradient synchronization costs a training step. For each placement of the
ranks and each method, print the traffic of a rank, the time of communication and of the step, and
the efficiency, best first. docs/studies.md lists formulas, models and links. MB is 10^6 bytes, MiB
2^20; rates are those of one direction. Example: busbw estimate --model=resnet-50 --ranks=8
--bandwidth=10gbe
"""


_LINK = f"a link's name or {RATE.words}, one direction, and perhaps its latency: 150GB/s,5us"
_SERVERS = "Numbers of parameter servers, as a comma list (default: 1, and as many as ranks)"
_OVERLAP = (
    "Share of --compute, at its end, during which gradients can be exchanged already (default: 0)"
)
GRADIENTS = (
    Option(name="model", metavar="NAME", help=f"Gradients of a known model: {', '.join(MODELS)}"),
    Option(name="parameters", parse=COUNT, metavar="N", help=f"Gradients of {COUNT.words} (10^6)"),
    file_option(
        "shapes",
        'Gradients of these shapes, as JSON in the order of the forward pass: {"w": [512, 2]}',
    ),
    Option(
        name="gradient_bytes",
        parse=SIZE,
        metavar="SIZE",
        help=f"Gradients of this size: {SIZE.words}",
    ),
)
OPTIONS = (
    Option(
        name="dtype",
        parse=forms.word(tuple(DTYPE_BYTES)),
        choices=tuple(DTYPE_BYTES),
        help="Type of a gradient (default: float32)",
    ),
    Option(
        name="bucket",
        parse=SIZE,
        metavar="SIZE",
        help="Send the gradients in buckets of this size, such as 25MiB (default: all at once)",
    ),
    Option(name="servers", parse=whole_numbers, metavar="K", help=_SERVERS),
    Option(name="ranks", parse=ranks, metavar="N", help="Number of ranks"),
    Option(
        name="hosts",
        parse=whole_numbers,
        metavar="H",
        help="Also estimate for these numbers of hosts, as a comma list, besides one host",
    ),
    Option(name="bandwidth", metavar="LINK", help=f"Use this link everywhere: {_LINK}"),
    Option(
        name="intra",
        metavar="LINK",
        help="Use this link inside a host, for each rank; written as for --bandwidth",
    ),
    Option(
        name="inter",
        metavar="LINK",
        help="Use this link between hosts, for each host; written as for --bandwidth",
    ),
    Option(
        name="compute",
        parse=COMPUTE,
        metavar="TIME",
        help="Time of the forward and backward pass of one rank, such as 0.55s",
    ),
    Option(name="overlap", parse=SHARE, metavar="SHARE", help=_OVERLAP),
    Option(
        name="want_efficiency",
        parse=EFFICIENCY,
        metavar="P",
        help="Also compute the bandwidth that this efficiency needs, such as 0.9",
    ),
    Option(name="half_duplex", flag=True, help="Both directions of a link share its rate"),
)
_JSON = Option(name="json", flag=True, help="Print JSON instead of a table")


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "estimate",
        run,
        *OPTIONS,
        _JSON,
        help="Estimate what gradient synchronization costs a training step",
        description=_DESCRIPTION,
    )
    group = parser.add_argument_group("what is exchanged (one of)")
    add_options(group.add_mutually_exclusive_group(required=True), GRADIENTS)


def run(options: argparse.Namespace) -> int:
    with usage_error(BaselineError, QuestionError, UnsupportedLayoutError):
        question = question_of(options)
        answer = estimates(question)
    if options.json:
        print(json.dumps(_document(question, answer), indent=1))
    else:
        print("\n".join(_page(question, answer)))
    return 0


def _document(question: Question, answer: Answer) -> dict[str, object]:
    """Plain dicts, lists, strings, numbers and None; the unit is in the name."""
    rows, notes = answer
    return {
        "schema": SCHEMA,
        **dataclasses.asdict(question.step),
        "buckets": len(question.step.buckets),
        **attributes(question, "name", "parameters", "dtype", "wanted_efficiency"),
        "links": [
            {"level": level.value, **dataclasses.asdict(link)} for level, link in _used(question)
        ],
        "memory_bytes_per_parameter": memory_by_optimizer(question.dtype),
        "notes": notes,
        "estimates": [dataclasses.asdict(row) for row in rows],
    }


def _page(question: Question, answer: Answer) -> list[str]:
    """The head, a table with a line for each row, and the notes."""
    (rows, notes), wanted = answer, question.wanted_efficiency
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
        rows=rows_of({**dataclasses.asdict(row), "last": _last(row, wanted)} for row in rows),
    )
    below = ["", *(f"note: {note}" for note in notes)] if notes else []
    return [*_head(question), "", *rendered("text", table), *below]


def _last(row: Estimated, wanted: float | None) -> str:
    needs = ""
    if wanted is not None:
        rate = row.wanted_bytes_per_s
        needs = "no bandwidth suffices" if rate is None else f"{rate / 1e6:.0f} MB/s"
    return "; ".join(filter(None, (row.bottleneck, needs)))


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
