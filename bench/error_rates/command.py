"""The command `python -m bench error_rates`, which prints tables of error rates."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import agreement, kept, regimes

BUSY = Path(__file__).parents[1] / "data" / "busy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the tables and their options to the parser of the command."""
    tables = parser.add_subparsers(dest="table", required=True)
    rates = tables.add_parser("rates", help="simulate sessions on quiet devices")
    rates.add_argument("--only", action="append", default=[], help="rows whose name has this text")
    rates.set_defaults(
        lines=lambda options: regimes.rows(
            options.devices, options.seed, options.only, automatic=options.automatic
        )
    )
    both = tables.add_parser("agreement", help="compare the simulation's rule with the product's")
    both.add_argument("--sessions", type=_positive, default=24, help="default: 24")
    both.set_defaults(
        lines=lambda options: agreement.rows(
            options.devices, options.sessions, options.seed, automatic=options.automatic
        )
    )
    for command, devices in ((rates, 1000), (both, 5)):
        command.add_argument(
            "--devices", type=_positive, default=devices, help=f"default: {devices}"
        )
        command.add_argument(
            "--automatic", action="store_true", help="one launch of a case where it decides"
        )
        command.add_argument("--seed", type=_positive, default=1, help="default: 1")
    recorded = tables.add_parser("kept", help="judge recorded sessions against one another")
    recorded.add_argument("--folder", type=Path, default=BUSY, help="default: bench/data/busy")
    recorded.set_defaults(lines=lambda options: kept.rows(kept.read(options.folder)))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
    return number
