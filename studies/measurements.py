"""All-reduce measured twice: inside training steps, from recordings, and by itself, by busbw."""

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from studies import training_steps
from studies.processes import Member, run_group, run_module
from studies.report import payload_text

FRAMEWORKS = ("jax", "tensorflow")
_SIZE = re.compile(r"(\d+)([KM])")
_SMALLEST = training_steps.OUTPUTS * 4
# Seconds by framework and payload.
Times: TypeAlias = dict[tuple[str, int], float]
_PAYLOAD, _SLICE = r"-(?P<payload>\d+K)$", r"(?P<slice>[a-z]+)-\d+-\d+K$"


def add_arguments(parser: argparse.ArgumentParser, payloads: str) -> None:
    """Add the options of a study that measures; `payloads` is the default."""
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
    """Return the sizes of a list such as `64K,1M` in bytes, the smallest first."""
    sizes = []
    for word in text.split(","):
        match = _SIZE.fullmatch(word)
        size = int(match[1]) * (1024 if match[2] == "K" else 1024**2) if match else 0
        if not match or size % _SMALLEST or not size:
            raise argparse.ArgumentTypeError(f"expected even sizes such as 64K,1M, got {word!r}")
        sizes.append(size)
    return sorted(set(sizes))


def record_steps(options: argparse.Namespace, folder: str) -> Times:
    """Record training steps into a folder; return the median step of each."""
    times_s: Times = {}
    # One framework after the other, so that they do not disturb one another.
    for framework in options.frameworks:
        arguments = (framework, options.ranks, options.payloads, folder)
        (steps_s,) = run_group([Member(training_steps.record, arguments)])
        cases = [(framework, payload) for payload in options.payloads]
        times_s |= dict(zip(cases, steps_s, strict=True))
    return times_s


def read_recordings(folder: str) -> Times:
    """Return the all-reduce inside the recorded steps: the median of the slowest rank."""
    naming = (f"--slice-from={_SLICE}", f"--payload-from={_PAYLOAD}")
    text = run_module("busbw", "trace", folder, *naming, "--json")
    return {
        (cell["slice"], cell["payload_bytes"]): cell["slowest_rank"]["median_s"]
        for cell in json.loads(text)["cells"]
    }


def measure_alone(
    options: argparse.Namespace, payloads: Sequence[int], folder: str
) -> tuple[Times, list[str]]:
    """Measure all-reduces by themselves with `pytest perf/`.

    Return the times, and a sentence for each case without a time.
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
    """Run `pytest perf/`; return the cases of its results, which it leaves in the folder."""
    results, baselines = Path(folder) / "results.json", Path(folder) / "baselines"
    baselines.mkdir(exist_ok=True)
    # No accepted time, program or cache has a part in a study.
    files = (f"--results={results}", f"--baselines={baselines}")
    run_module("pytest", "perf/", "-p", "no:cacheprovider", *files, *arguments, accepted=(0, 1))
    return list(json.loads(results.read_text())["cases"])


def failed_cases(cases: Iterable[Any]) -> list[str]:
    """Return a sentence for each case that failed."""
    return [f"{case['id']}: {case['text']}" for case in cases if case["failed"]]
