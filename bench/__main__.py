"""Run a benchmark of busbw, and print its table as Markdown.

Let no other program run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from busbw.history.files import HistoryError

from . import faults, fidelity, sweep
from .error_rates import command as error_rates
from .gpu import command as gpu
from .processes import BenchError

_BENCHMARKS = {
    "fidelity": ("busbw's times next to those of loops written by hand", fidelity),
    "sweep": ("where the wall time of a session goes", sweep),
    "error_rates": ("how often a verdict errs, simulated and recorded", error_rates),
    "faults": ("what it costs when a process is killed at a random moment", faults),
    "gpu": ("one GPU, in a few minutes; or the same parts on the CPU", gpu),
}


def parser() -> argparse.ArgumentParser:
    main_parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    commands = main_parser.add_subparsers(required=True, metavar="NAME")
    for name, (text, module) in _BENCHMARKS.items():
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        module.add_arguments(command)
    return main_parser


def main(words: Sequence[str]) -> None:
    options = parser().parse_args(words)
    try:
        for line in options.lines(options):
            # Rows are printed at once, because a table may take minutes.
            print(line, flush=True)
    except (BenchError, HistoryError, OSError) as error:
        raise SystemExit(f"bench: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
