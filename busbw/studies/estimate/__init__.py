"""`python -m busbw estimate`: what gradient synchronisation should cost a training step."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from busbw.commands.command import (
    Commands,
    add_command,
    check_file,
    name_of,
    parsed,
    shown,
    write_file,
)

from . import catalog, page
from .answer import estimates
from .question import (
    RATE_GRAMMAR,
    SIZE_GRAMMAR,
    parse_count,
    parse_duration,
    parse_efficiency,
    parse_positive_duration,
    parse_ranks,
    parse_share,
    parse_size,
    parse_whole_numbers,
    question_of,
)

ORDER = 3

_DESCRIPTION = """
What gradient synchronisation should cost a training step, by formula: for each placement of the
ranks and each method the traffic of a rank, the time of communication and of the step, and the
efficiency, best first. docs/costmodel.md derives the formulas and lists models and links. MB is
10^6 bytes, MiB 2^20; rates are those of one direction.
"""


def add_to(commands: Commands) -> None:
    """Add this command and its options, each checked by itself and not yet together."""
    parser = add_command(
        commands,
        "estimate",
        run,
        help="what gradient synchronisation should cost a training step",
        description=_DESCRIPTION,
    )
    _add_gradients(parser)
    _add_links(parser)
    _add_step(parser)
    _add_answers(parser)


def run(options: argparse.Namespace) -> int:
    """Print what is estimated; 0, or 1 for a figure that cannot be written. Raises UsageError."""
    # It replaces an earlier figure, and never what is read.
    inputs = [one for one in (options.shapes, options.curve) if one is not None]
    what = "a figure of busbw estimate"
    check_file("--figure", options.figure, what, page.is_figure, inputs)
    question = question_of(options)
    answer = estimates(question)
    if options.json:
        print(json.dumps(page.document(question, answer), indent=1))
    else:
        print("\n".join(page.lines(question, answer)))
    if options.figure is not None:
        return write_file(page.figure(question, answer), options.figure)
    return 0


def _add_gradients(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is exchanged (one of)").add_mutually_exclusive_group(
        required=True
    )
    names = ", ".join(model.name for model in catalog.MODELS if model.parameters is not None)
    group.add_argument("--model", metavar="NAME", help=f"a model by name: {names}")
    group.add_argument(
        "--parameters",
        type=parsed(parse_count),
        metavar="N",
        help="a number of parameters such as 25583592 or 138.36M (10^6)",
    )
    group.add_argument(
        "--shapes",
        type=Path,
        metavar="FILE",
        help='a JSON file of shapes in the order of the forward pass, such as {"w": [512, 2]}',
    )
    group.add_argument(
        "--gradient-bytes",
        type=parsed(parse_size),
        metavar="SIZE",
        help=SIZE_GRAMMAR,
    )
    parser.add_argument(
        "--dtype",
        type=name_of(catalog.DTYPE_BYTES),
        metavar=shown(catalog.DTYPE_BYTES),
        help="type of a gradient (default: float32)",
    )
    parser.add_argument(
        "--bucket",
        type=parsed(parse_size),
        metavar="SIZE",
        help="exchange gradients in buckets of this size, such as 25MiB (default: all at once)",
    )


def _add_links(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where")
    add = group.add_argument
    add("--ranks", type=parsed(parse_ranks), metavar="N", help="how many, with --curve its own")
    add(
        "--hosts",
        type=parsed(parse_whole_numbers),
        metavar="H",
        help="a comma list of how many hosts to spread them over, in addition to one",
    )
    link = "a link's name or " + RATE_GRAMMAR + ", one direction"
    add("--bandwidth", metavar="LINK", help=f"one link for everything: {link}")
    add(
        "--latency",
        type=parsed(parse_duration),
        metavar="TIME",
        help="what a step over --bandwidth costs, such as 5us (default: 0)",
    )
    latency = ", and perhaps a comma and its latency: 150GB/s,5us"
    add("--intra", metavar="LINK", help=f"inside a host, of a rank: {link}{latency}")
    add("--inter", metavar="LINK", help="between hosts, of a host: the same")
    add("--half-duplex", action="store_true", help="both directions of a link share its rate")
    add(
        "--curve",
        type=Path,
        metavar="FILE",
        help="instead of links: what was measured, a results file (--results) or a baseline",
    )
    add(
        "--curve-case",
        metavar="WORDS",
        help='which of several curves in it, by words of its name such as "jax float16"',
    )


def _add_step(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the step").add_argument
    add(
        "--compute",
        type=parsed(parse_positive_duration),
        metavar="TIME",
        help="forward and backward pass of one rank alone, such as 0.55s",
    )
    add(
        "--overlap",
        type=parsed(parse_share),
        metavar="SHARE",
        help="the share of --compute, 0 to 1, at whose end gradients can be exchanged meanwhile: "
        "the backward pass (default: 0)",
    )
    add(
        "--servers",
        type=parsed(parse_whole_numbers),
        metavar="K",
        help="a comma list of how many parameter servers (default: 1, and as many as ranks)",
    )
    add(
        "--want-efficiency",
        type=parsed(parse_efficiency),
        metavar="P",
        help="also the bandwidth that this efficiency needs, such as 0.9",
    )


def _add_answers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the answer")
    group.add_argument("--json", action="store_true", help="as JSON instead of a table")
    group.add_argument(
        "--figure",
        type=parsed(_svg),
        metavar="FILE.svg",
        help="also a figure: a bar for each method, its computing and its communication",
    )


def _svg(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".svg":
        raise ValueError(f"{text!r}; accepted is a file that ends with .svg")
    return path
