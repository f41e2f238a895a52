"""Predict the communication of training steps with `busbw estimate`, next to the measured time.

First, published calculations are repeated. "tensorflow分布式" calculates a ring of four GPUs for
VGG-16 over 1 Gbit/s, and measured a step of 7.628 s. "placement的估计" counts the bytes that
parameter servers exchange for 61.5 million parameters and 8 workers. Then training steps run here.
Their communication is predicted for a ring, whose bandwidth and latency come from all-reduces by
themselves (`pytest perf/`) that are half and twice as large. The measured communication is read
from recordings (`busbw trace`). The computation is measured in a step of one rank.

Check: the repeated calculations are within 1 % of the published figures.
"""

import argparse
import functools
import json
import tempfile
from typing import Any

from studies import measurements
from studies.processes import run_module
from studies.report import Report, payload_text, table_lines

_RING_ARGUMENTS = (
    *("--gradient-bytes=553.36MB", "--ranks=4", "--bandwidth=125MB/s"),
    *("--compute=0.55s", "--want-efficiency=0.9"),
)
_SERVER_ARGUMENTS = ("--parameters=61.5M", "--ranks=8", "--bandwidth=10gbe", "--servers=1,8")
_BYTES_PER_MILLION = 4e6
_TOLERANCE = 0.01
# For each published figure: its name, its value, the arguments of `busbw estimate`, and where the
# figure is in its results: the beginning of the method's name, the field, and its unit.
FIGURES = (
    ("ring of 4 GPUs, VGG-16: efficiency", 0.0765, _RING_ARGUMENTS, "ring", "efficiency", 1),
    ("the same: time of a step, s (measured: 7.628)", 7.19, _RING_ARGUMENTS, "ring", "step_s", 1),
    (
        "the same: for 90 % efficiency, MB/s",
        13582,
        _RING_ARGUMENTS,
        "ring",
        "needed_bytes_per_s",
        1e6,
    ),
    (
        "1 server, 8 workers: gradients that the server receives, million",
        492,
        _SERVER_ARGUMENTS,
        "parameter server, 1 dedicated",
        "server_bytes",
        _BYTES_PER_MILLION,
    ),
    (
        # The source counts both directions together, which are 4 x 7/8 of the gradients.
        "8 servers on the workers: gradients that a worker sends, million",
        2 * 7 / 8 * 61.5,
        _SERVER_ARGUMENTS,
        "parameter server, 8 beside workers",
        "traffic_bytes",
        _BYTES_PER_MILLION,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this study."""
    measurements.add_arguments(parser, "256K,1M,4M")


def report(options: argparse.Namespace) -> Report:
    """Repeat the calculations, measure the steps, and return the report."""
    lines, failures = _repeat_published_calculations()
    with tempfile.TemporaryDirectory(prefix="busbw-study-") as folder:
        computing_s = measurements.record_steps(
            argparse.Namespace(**{**vars(options), "ranks": 1}), folder
        )
        steps_s = measurements.record_steps(options, folder)
        communication_s = measurements.read_recordings(folder)
        sizes = sorted(
            {size for payload in options.payloads for size in (payload // 2, payload * 2)}
        )
        by_itself_s, problems = measurements.measure_by_themselves(options, sizes, folder)
        rows = []
        for framework, payload in steps_s:
            case = (framework, payload)
            times_s = (
                by_itself_s.get((framework, payload // 2)),
                by_itself_s.get((framework, payload * 2)),
            )
            if None in times_s:
                continue
            estimate = _predict_ring(payload, computing_s[case], options.ranks, times_s)
            rows.append(
                _table_row(
                    case, computing_s[case], estimate, (communication_s.get(case), steps_s[case])
                )
            )
    head = ["framework, gradient", "computing, ms", "communication: predicted, ms", "measured, ms"]
    head += ["measured / predicted", "step: predicted, ms", "measured, ms", "ratio"]
    heading = f"{options.ranks} ranks here:"
    return Report([*lines, "", heading, "", *table_lines(head, rows)], [*failures, *problems])


def _repeat_published_calculations() -> tuple[list[str], list[str]]:
    """Repeat the published calculations with `busbw estimate`.

    Returns the lines of a table, and a sentence for each result that differs from the published
    figure.
    """
    rows, failures = [], []
    for name, published, arguments, method, field, unit in FIGURES:
        repeated = _run_estimate(method, *arguments)[field] / unit
        rows.append([name, f"{published:.5g}", f"{repeated:.5g}"])
        if abs(repeated / published - 1) > _TOLERANCE:
            failures.append(f"{name}: expected {published:.5g}, got {repeated:.5g}")
    return table_lines(("published calculation", "published", "busbw estimate"), rows), failures


@functools.cache
def _run_estimate(method: str, *arguments: str) -> Any:
    """Return an estimate of `busbw estimate`, whose method's name begins with `method`.

    `arguments` are the arguments of the command.
    """
    estimates = json.loads(run_module("busbw", "estimate", *arguments, "--json"))["estimates"]
    return next(estimate for estimate in estimates if estimate["method"].startswith(method))


def _predict_ring(payload: int, computing_s: float, ranks: int, times_s: Any) -> Any:
    """Return the estimate of a training step whose gradients are summed by a ring.

    Args:
        payload: The size of the gradient in bytes.
        computing_s: The time of the computation of a step, in seconds.
        ranks: The number of ranks.
        times_s: The measured times of all-reduces of half and twice the payload. The bandwidth and
            the latency of the ring follow from a line through both times.

    """
    half_s, double_s = times_s
    s_per_byte = max(double_s - half_s, 1e-12) / (1.5 * payload)
    latency_s = max(0.0, half_s - s_per_byte * payload / 2) / (2 * (ranks - 1))
    return _run_estimate(
        "ring",
        f"--gradient-bytes={payload}B",
        f"--ranks={ranks}",
        f"--bandwidth={2 * (ranks - 1) / ranks / s_per_byte / 1e6:.6f}MB/s,{latency_s * 1e6:.3f}us",
        f"--compute={computing_s * 1e6:.3f}us",
    )


def _table_row(
    case: tuple[str, int],
    computing_s: float,
    predicted: Any,
    measured_s: tuple[float | None, float],
) -> list[str]:
    """Return the cells of the table for a framework and a payload (`case`).

    `measured_s` are the measured seconds of the communication (None if unknown) and of the step.
    """
    communication_s, step_s = measured_s
    predicted_s = predicted["communication_s"]
    return [
        f"{case[0]}, {payload_text(case[1])}",
        _milliseconds_text(computing_s),
        _milliseconds_text(predicted_s),
        _milliseconds_text(communication_s) if communication_s else "-",
        f"{communication_s / predicted_s:.2f}" if communication_s else "-",
        _milliseconds_text(predicted["step_s"]),
        _milliseconds_text(step_s),
        f"{step_s / predicted['step_s']:.2f}",
    ]


def _milliseconds_text(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
