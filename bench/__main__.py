"""`python -m bench`: run the benchmarks, print them, write docs/bench.md."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import fidelity, sweep
from bench.output import check_output
from busbw import writing
from busbw.worker import host

TITLE = "# What busbw itself costs"
PAGE = Path(__file__).parent.parent / "docs" / "bench.md"

SWEEPS = {
    "`pytest perf/`": (),
    "`pytest perf/ --launches=1 --payloads=1K:64M`": ("--launches=1", "--payloads=1K:64M"),
}


def main() -> None:
    """Both benchmarks; nothing else may run on the machine meanwhile."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--processes", type=int, default=5, help="for each loop (default: 5)")
    parser.add_argument("--output", type=Path, default=PAGE, help=f"default: {PAGE.name}")
    options = parser.parse_args()
    check_output(parser, options.output, TITLE)
    lines = []
    for line in _page(options.processes):
        # What took minutes is not lost with what fails after it.
        print(line, flush=True)
        lines.append(line)
    writing.write(options.output, "\n".join(lines) + "\n")


def _page(processes: int) -> Iterator[str]:
    yield TITLE
    yield ""
    yield "What a session costs, and busbw's times next to those of loops written by hand."
    yield ""
    yield f"Written by `tox -e bench` on {datetime.date.today().isoformat()}, {_machine()}."
    yield ""
    yield "## Against loops written by hand"
    yield ""
    yield from _ABOUT_FIDELITY
    yield from fidelity.lines(fidelity.measured(processes, _tell))
    yield ""
    yield "## Where a session's time goes"
    for name, options in SWEEPS.items():
        _tell(f"sweep: {name}")
        yield from sweep.lines(name, sweep.measured(options))


_ABOUT_FIDELITY = (
    "Each ratio is busbw's time of one all-reduce over the time of a minimal loop",
    "(`bench/loops.py`) that does not write initial values and neither checks nor proves",
    "anything. The two loops take turns within a process, with the same estimator and the same",
    "number of iterations. They also take turns in who allocates memory first, which alone",
    "makes a difference of up to 8 %. The ratio of a process is the median over its pairs; the",
    "table has the median over processes, with minimum and maximum. Below 1 busbw's loop is",
    "faster. The last two columns are other ways to measure the same psum, as multiples of",
    "busbw's time: a loop in which XLA copies the payload, and calls that allocate their output",
    "(both with the same huge pages).",
)


def _machine() -> str:
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("jax", "jaxlib", "tensorflow")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{host.cpu_model()}, {host.cores()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, {', '.join(versions)}"
    )


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
