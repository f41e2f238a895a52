"""The options of `python -m busbw estimate`, each checked by itself and not yet together."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from busbw import costmodel

from . import quantities

_DESCRIPTION = """
What gradient synchronisation should cost a training step, by formula: for each placement of the
ranks and each method the traffic of a rank, the time of communication and of the step, and the
efficiency, best first. docs/costmodel.md derives the formulas and lists models and links. MB is
10^6 bytes, MiB 2^20; rates are those of one direction.
"""


def add_to(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add the command and its options."""
    parser = commands.add_parser(
        "estimate",
        help="what gradient synchronisation should cost a training step",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    _add_gradients(parser)
    _add_links(parser)
    _add_step(parser)
    _add_answers(parser)
    return parser


def _add_gradients(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is exchanged (one of)").add_mutually_exclusive_group(
        required=True
    )
    names = ", ".join(model.name for model in costmodel.MODELS if model.parameters is not None)
    group.add_argument("--model", metavar="NAME", help=f"a model by name: {names}")
    group.add_argument(
        "--parameters",
        type=_said(quantities.count),
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
        type=_said(quantities.size),
        metavar="SIZE",
        help=quantities.SIZE_GRAMMAR,
    )
    parser.add_argument(
        "--dtype",
        choices=tuple(costmodel.DTYPE_BYTES),
        help="type of a gradient (default: float32)",
    )
    parser.add_argument(
        "--bucket",
        type=_said(quantities.size),
        metavar="SIZE",
        help="exchange gradients in buckets of this size, such as 25MiB (default: all at once)",
    )


def _add_links(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where")
    add = group.add_argument
    add("--ranks", type=_said(quantities.ranks), metavar="N", help="how many, with --curve its own")
    add(
        "--hosts",
        type=_said(quantities.whole_numbers),
        metavar="H",
        help="a comma list of how many hosts to spread them over, beside all in one",
    )
    link = "a link's name or " + quantities.RATE_GRAMMAR + ", one direction"
    add("--bandwidth", metavar="LINK", help=f"one link for everything: {link}")
    add(
        "--latency",
        type=_said(quantities.duration),
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
        type=_said(quantities.positive_duration),
        metavar="TIME",
        help="forward and backward pass of one rank alone, such as 0.55s",
    )
    add(
        "--overlap",
        type=_said(quantities.share),
        metavar="SHARE",
        help="the share of --compute, 0 to 1, at whose end gradients can be exchanged meanwhile: "
        "the backward pass (default: 0)",
    )
    add(
        "--servers",
        type=_said(quantities.whole_numbers),
        metavar="K",
        help="a comma list of how many parameter servers (default: 1, and as many as ranks)",
    )
    add(
        "--want-efficiency",
        type=_said(quantities.efficiency),
        metavar="P",
        help="also the bandwidth that this efficiency needs, such as 0.9",
    )


def _add_answers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the answer")
    group.add_argument("--json", action="store_true", help="as JSON instead of a table")
    group.add_argument(
        "--figure",
        type=_said(_svg),
        metavar="FILE.svg",
        help="also a figure: a bar for each method, its computing and its communication",
    )


def _svg(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".svg":
        raise ValueError(f"{text!r}; accepted is a file that ends with .svg")
    return path


def _said(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A type for argparse whose ValueError is the sentence that the user reads."""

    def parsed(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed
