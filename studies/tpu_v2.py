"""Show the published all-reduce table of TPU v2 next to programs of today's compiler.

You need no TPU. The source ("TPU_All_reduce", 2019) measured four slices of TPU v2 with TensorFlow
1.12, and names the payloads at which memory ran out. It calls GiB/s GB/s; its rates are converted.
`pytest perf/ --topology=` compiles all-reduces for the same slices with the installed libtpu, which
still supports TPU v2. The compiled programs show the algorithm and the memory, but not the time.
Training steps like the source's are compiled for payloads around the limit of the source's memory.

Check: every program compiles, or runs out of memory.
"""

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from typing import Any

from studies.measurements import failed_cases, run_perf
from studies.report import Report, payload_text, published_rates, table_lines

# By the name of a slice: its topology, and the payloads for which a training step is compiled.
SLICES = {
    "v2-8": ("v2:2x2", ()),
    "v2-32": ("v2:4x4", ()),
    "v2-128": ("v2:8x8", ("512M", "1024M")),
    "v2-512": ("v2:16x16", ("128M", "256M")),
}
_STEP_PROGRAM = "studies/tpu_v2_steps.py:step_"
_GIB = 1024**3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this study."""
    parser.add_argument(
        "--payloads", default="1K:1024M", help="all-reduces to compile (default 1K:1024M)"
    )
    parser.add_argument(
        "--slices", choices=SLICES, nargs="+", default=list(SLICES), help="only these slices"
    )


def report(options: argparse.Namespace) -> Report:
    """Compile for all selected slices, and return the report."""
    topologies = {SLICES[name][0]: name for name in options.slices}
    cases = _run_compilation(f"--topology={','.join(topologies)}", f"--payloads={options.payloads}")
    rates = {name: published_rates(int(name.removeprefix("v2-"))) for name in options.slices}
    rows: dict[str, list[str]] = {}
    algorithms: list[tuple[str, str, str]] = []
    for case in cases:
        payload = payload_text(case["spec"]["payload_bytes"])
        name = topologies[case["topology"]]
        cells = rows.setdefault(payload, [payload])
        cells += [rates[name].get(payload, "-"), _memory_text(case)]
        algorithms.append((name, _algorithm_text(case), payload))
    head = ["payload"]
    for name in options.slices:
        head += [f"{name}: published, GB/s", "all-reduce compiled here, a core's memory"]
    lines = [*table_lines(head, rows.values()), "", *_algorithm_table(algorithms)]
    steps = []
    for name in options.slices:
        topology, payloads = SLICES[name]
        programs = [f"--program={_STEP_PROGRAM}{payload}" for payload in payloads]
        compiled = _run_compilation(f"--topology={topology}", *programs) if programs else []
        cases += compiled
        steps += [
            [f"{name} {payload}", rates[name][payload], _memory_text(case)]
            for payload, case in zip(payloads, compiled, strict=True)
        ]
    head = ["training step", "published, GB/s", "compiled here, a core's memory"]
    return Report([*lines, "", *table_lines(head, steps)], failed_cases(cases))


def _run_compilation(*arguments: str) -> list[Any]:
    """Run `pytest perf/` with `arguments` and without a cache; return the cases in its results."""
    with tempfile.TemporaryDirectory(prefix="busbw-study-") as folder:
        return run_perf(folder, "--compile-cache=none", *arguments)


def _memory_text(case: Any) -> str:
    """Return a text with the peak memory of a core, or with the memory that a core lacks.

    The text is the outcome of the case if the case failed for another reason.
    """
    failure = case["failure"]
    if failure is None:
        return _bytes_text(case["program"]["now"]["peak_bytes"])
    if failure["needed_bytes"] is None:
        return str(case["outcome"])
    needed, available = failure["needed_bytes"], failure["available_bytes"]
    return f"OOM: needs {_bytes_text(needed)} of {_bytes_text(available)}"


def _bytes_text(count: int) -> str:
    return f"{count / _GIB:.2f} GiB" if count >= _GIB else f"{count / 1024:.0f} KiB"


def _algorithm_text(case: Any) -> str:
    """Return the algorithm of a compiled case as a text, or the outcome of a case that failed."""
    program = case["program"] and case["program"]["now"]
    algorithm = program["algorithm"] if program else {"outcome": case["outcome"]}
    return ", ".join(f"{name} {value}" for name, value in sorted(algorithm.items()))


def _algorithm_table(algorithms: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a table with a row for each range of payloads that have the same algorithm.

    `algorithms` lists the slice, the algorithm and the payload of each case, in order.
    """
    rows = []
    for (name, algorithm), group in itertools.groupby(algorithms, key=lambda cell: cell[:2]):
        payloads = [payload for _, _, payload in group]
        rows.append([name, f"{payloads[0]} to {payloads[-1]}", algorithm])
    return table_lines(("slice", "payloads", "algorithm compiled here"), rows)
