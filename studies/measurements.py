"""Measure all-reduces in two ways: inside training steps by the profiler, and alone by busbw."""

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from studies import training_steps
from studies.processes import GroupMember, run_group, run_module
from studies.report import payload_text

FRAMEWORKS = ("jax", "tensorflow")
_SIZE = re.compile(r"(\d+)([KM])")
_SMALLEST_PAYLOAD = training_steps.OUTPUTS * 4
# Times in seconds by framework and payload in bytes.
Times: TypeAlias = dict[tuple[str, int], float]
_PAYLOAD_PATTERN, _SLICE_PATTERN = r"-(?P<payload>\d+K)$", r"(?P<slice>[a-z]+)-\d+-\d+K$"


def add_arguments(parser: argparse.ArgumentParser, payloads: str) -> None:
    """Add the options of a study that measures all-reduces.

    `payloads` is the default of --payloads, such as ``64K,1M``.
    """
    parser.add_argument(
        "--payloads",
        type=parse_payloads,
        default=parse_payloads(payloads),
        metavar="LIST",
        help=f"sizes of the gradient (default {payloads})",
    )
    parser.add_argument("--ranks", type=int, default=2, help="number of ranks (default 2)")
    parser.add_argument(
        "--frameworks", choices=FRAMEWORKS, nargs="+", default=list(FRAMEWORKS), help="which ones"
    )
    parser.add_argument(
        "--launches",
        type=int,
        default=2,
        help="worker processes in which the all-reduce is measured by itself (default 2)",
    )


def parse_payloads(text: str) -> list[int]:
    """Return the sizes in a list such as `64K,1M` in bytes, the smallest first.

    Raises ArgumentTypeError for a word that is not a size, or a size that is impossible for a
    gradient.
    """
    sizes = []
    for word in text.split(","):
        match = _SIZE.fullmatch(word)
        size = int(match[1]) * (1024 if match[2] == "K" else 1024**2) if match else 0
        if not match or size % _SMALLEST_PAYLOAD or not size:
            raise argparse.ArgumentTypeError(f"expected even sizes such as 64K,1M, got {word!r}")
        sizes.append(size)
    return sorted(set(sizes))


def record_steps(options: argparse.Namespace, folder: str) -> Times:
    """Record training steps into `folder`; return the median time of a step of each payload."""
    times_s: Times = {}
    # The frameworks run one after the other, so that they do not disturb each other.
    for framework in options.frameworks:
        arguments = (framework, options.ranks, options.payloads, folder)
        (steps_s,) = run_group([GroupMember(training_steps.time_and_record, arguments)])
        cases = [(framework, payload) for payload in options.payloads]
        times_s |= dict(zip(cases, steps_s, strict=True))
    return times_s


def read_recordings(folder: str) -> Times:
    """Return the times of the all-reduce inside the steps that were recorded into `folder`.

    A time is the median time of the slowest rank.
    """
    naming = (f"--slice-from={_SLICE_PATTERN}", f"--payload-from={_PAYLOAD_PATTERN}")
    text = run_module("busbw", "trace", folder, *naming, "--json")
    return {
        (cell["slice"], cell["payload_bytes"]): cell["slowest_rank"]["median_s"]
        for cell in json.loads(text)["cells"]
    }


def measure_by_themselves(
    options: argparse.Namespace, payloads: Sequence[int], folder: str
) -> tuple[Times, list[str]]:
    """Measure all-reduces by themselves with `pytest perf/`.

    Returns the times, and a sentence for each case without a time. The files of the session are
    left in `folder`.
    """
    cases = run_perf(
        folder,
        f"--frameworks={','.join(options.frameworks)}",
        f"--ranks={options.ranks}",
        f"--payloads={','.join(map(payload_text, payloads))}",
        f"--launches={options.launches}",
    )
    times_s = {
        (case["case"]["framework"], case["case"]["payload_bytes"]): case["figures"]["median_s"]
        for case in cases
        if not case["failed"]
    }
    return times_s, failed_cases(cases)


def run_perf(folder: str, *arguments: str) -> list[Any]:
    """Run `pytest perf/` with `arguments`, and return the cases in its results.

    The files of the session are left in `folder`.
    """
    results, baselines = Path(folder) / "results.json", Path(folder) / "baselines"
    baselines.mkdir(exist_ok=True)
    # Baselines and caches of the user must not change the results of a study.
    files = (f"--results={results}", f"--baselines={baselines}")
    run_module(
        "pytest", "perf/", "-p", "no:cacheprovider", *files, *arguments, accepted_exit_codes=(0, 1)
    )
    return list(json.loads(results.read_text())["cases"])


def failed_cases(cases: Iterable[Any]) -> list[str]:
    """Return a sentence for each case that failed."""
    return [f"{case['id']}: {case['text']}" for case in cases if case["failed"]]
