"""Give pytest-benchmark the recorded samples and the figures of each case, for its own files.

No verdict depends on whether pytest-benchmark is installed, disabled or skips benchmarks.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pytest

from busbw.model.launch import Measurement

# The key of the case's id in `extra_info` of a benchmark. Only benchmarks of busbw have this key.
_CASE_KEY = "case"


def replay_samples(
    request: pytest.FixtureRequest, measurement: Measurement, properties: Mapping[str, object]
) -> None:
    """Let pytest-benchmark time the recorded samples of `measurement` by a clock that replays them.

    `request` is the request of the fixture of the verdict. `properties` are the figures of the
    case, for `extra_info`. Nothing is done without samples, or if pytest-benchmark is missing or
    skips benchmarks.
    """
    samples_s = [sample for run in measurement.runs for sample in run.samples_s]
    config, case = request.config, measurement.case
    has_benchmark = config.pluginmanager.hasplugin("benchmark")
    if not samples_s or not has_benchmark or config.getoption("benchmark_skip"):
        return
    # pytest-benchmark reads its timer before and after each sample.
    readings_s = iter([reading for sample in samples_s for reading in (0.0, sample)])

    def replay() -> float:
        return next(readings_s)

    group = f"{case.framework}.{case.strategy}"
    request.node.add_marker(pytest.mark.benchmark(timer=replay, group=group))
    benchmark = request.getfixturevalue("benchmark")
    iterations = measurement.runs[0].iterations
    benchmark.extra_info.update({_CASE_KEY: request.param.id, **properties})
    benchmark.extra_info["iterations_per_sample"] = iterations
    benchmark.pedantic(lambda: None, rounds=len(samples_s), iterations=1)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_benchmark_group_stats(
    config: pytest.Config, benchmarks: list[dict[str, Any]]
) -> Generator[None, Sequence[object], Sequence[object]]:
    """Leave the cases out of pytest-benchmark's table, which has no GB/s, unless it is verbose."""
    if not config.getoption("benchmark_verbose"):
        benchmarks[:] = [row for row in benchmarks if _CASE_KEY not in row["extra_info"]]
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: list[object], output_json: dict[str, Any]
) -> None:
    """Replace the parameters and the timer of each case, which JSON cannot hold, by names."""
    for row in output_json["benchmarks"]:
        if _CASE_KEY in row["extra_info"]:
            row["params"] = {"case": row["extra_info"][_CASE_KEY]}
            row["options"]["timer"] = "replayed"
