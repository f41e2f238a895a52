"""Compare the all-reduce inside training steps with the all-reduce by itself.

The source ("TPU_All_reduce", 2019) trained a dense layer on slices of TPU v2, and read the
all-reduce of its gradient from profiler recordings, for gradients of 1K to 1024M. Here the same
step runs on the attached devices, or on virtual CPU devices, in JAX and under TensorFlow's
MirroredStrategy. `busbw trace` reads the recordings, and `pytest perf/` measures the all-reduce by
itself. Rates are payload / time in GB/s. The source calls GiB/s GB/s; its rates are converted.

Check: every recording has an all-reduce of the payload.
"""

import argparse
import tempfile

from studies import measurements
from studies.report import Report, payload_text, published_rates, table_lines

_PUBLISHED_RANKS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this study."""
    measurements.add_arguments(parser, "64K,256K,1M,4M,16M")


def report(options: argparse.Namespace) -> Report:
    """Measure the all-reduce of all payloads in both ways, and return the report."""
    with tempfile.TemporaryDirectory(prefix="busbw-study-") as folder:
        measurements.record_steps(options, folder)
        in_training_s = measurements.read_recordings(folder)
        by_itself_s, failures = measurements.measure_by_themselves(
            options, options.payloads, folder
        )
    rates = published_rates(_PUBLISHED_RANKS)
    head = ["gradient", "published: TPU v2-8, in training"]
    for framework in options.frameworks:
        head += [f"{framework}: in training", "by itself", "time in training / by itself"]
    rows = []
    for payload in options.payloads:
        size = payload_text(payload)
        cells = [size, rates.get(size, "-")]
        for framework in options.frameworks:
            case = (framework, payload)
            if case not in in_training_s:
                failures.append(f"{framework} {size}: the recording has no all-reduce")
            cells += _rate_cells(payload, in_training_s.get(case), by_itself_s.get(case))
        rows.append(cells)
    return Report([f"{options.ranks} ranks, GB/s:", "", *table_lines(head, rows)], failures)


def _rate_cells(
    payload_bytes: int, in_training_s: float | None, by_itself_s: float | None
) -> list[str]:
    """Return the cells with the rates of an all-reduce in training and by itself, and their ratio.

    The times are in seconds; None if they are unknown.
    """
    rates = [
        "-" if not time_s else f"{payload_bytes / time_s / 1e9:.4g}"
        for time_s in (in_training_s, by_itself_s)
    ]
    return [*rates, f"{in_training_s / by_itself_s:.2f}" if in_training_s and by_itself_s else "-"]
