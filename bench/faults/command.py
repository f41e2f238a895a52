"""`python -m bench faults`: send signals to so many sessions, and print the table."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .hits import LAYOUTS, Result, drawn, phase_lengths, run, surprises
from .sandbox import Sandbox


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--layout",
        default="local",
        choices=tuple(LAYOUTS),
        help="agents: groups of two processes, each under a local agent (default: local)",
    )
    parser.add_argument("--kills", type=int, default=60, help="number of sessions (default: 60)")
    parser.add_argument(
        "--seed", type=int, default=1, help="draws targets and moments (default: 1)"
    )
    parser.add_argument(
        "--framework", default="jax", choices=("jax", "fake"), help="fake: to try the command"
    )
    parser.set_defaults(lines=lines)


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table. Raises SystemExit if any session was not as expected."""
    # A background process of a script ignores SIGINT, and so would its sessions.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    layout, results = LAYOUTS[options.layout], []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        sandbox = Sandbox(Path(folder), options.framework, layout.options)
        lengths_s = phase_lengths(sandbox)
        for hit in drawn(layout, options.kills, options.seed):
            result = run(sandbox, hit, lengths_s)
            results.append(result)
            print(
                f"{hit.signal.name}, {result.target}: exit code {result.exit_code}",
                *(f"\nunexpected: {surprise}" for surprise in surprises(result)),
                result.output if any(surprises(result)) else "",
                file=sys.stderr,
                flush=True,
            )
    yield from table(options.layout, results)
    if any(any(surprises(result)) for result in results):
        raise SystemExit(1)


def table(layout: str, results: Sequence[Result]) -> Iterator[str]:
    """Yield what hits cost by their target, as Markdown."""
    yield "| layout | hit | times | lost nothing | lost one launch | ended | unexpected |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for target in sorted({result.target for result in results}):
        group = [result for result in results if result.target == target]
        lost = [result.lost for result in group]
        unexpected = sum(any(surprises(result)) for result in group)
        counts = (len(group), lost.count(0), lost.count(1), lost.count(None), unexpected)
        yield f"| {layout} | {target} | {' | '.join(map(str, counts))} |"
