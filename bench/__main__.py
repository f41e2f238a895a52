"""`python -m bench`: run the benchmarks and print their tables, for docs/bench.md."""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Callable, Iterator, Mapping

from bench import fidelity, sweep
from bench.gpu import main as gpu
from busbw.worker import host

# In this order; each with the number of processes.
BENCHMARKS: Mapping[str, Callable[[int], Iterator[str]]] = {
    "fidelity": fidelity.lines,
    "sweep": lambda _: sweep.lines(),
}


def main() -> None:
    """Run the benchmarks that are named, or all; nothing else may run on the machine meanwhile.

    `gpu` has options of its own, and is none of all.
    """
    if sys.argv[1:2] == ["gpu"]:
        gpu.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(BENCHMARKS)} (default: all); or gpu, see bench gpu --help",
    )
    parser.add_argument(
        "--processes", type=int, default=5, help="of each loop (default: 5)"
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}; accepted: {', '.join(BENCHMARKS)}")
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("jax", "tensorflow"))
    print(f"{host.cpu_model()}, {host.cores()} cores, {', '.join(versions)}")
    for name in options.names or BENCHMARKS:
        for line in BENCHMARKS[name](options.processes):
            # What took minutes is not lost with what fails after it.
            print(line, flush=True)


if __name__ == "__main__":
    main()
