"""The records of pytest-benchmark: every sample, as it was measured, and the figures of its case.

Whether pytest-benchmark is installed, disabled or told to skip changes no verdict.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pytest

from busbw.model.launch import Measurement

# The key in a benchmark's extra_info that names its case, and marks the benchmarks of busbw.
_CASE = "case"


class _ReplayClock:
    """Moves at each step by the time of the next recorded sample, and not by itself."""

    def __init__(self, samples_s: list[float]) -> None:
        self._samples_s = iter(samples_s)
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def step(self) -> None:
        self._now_s += next(self._samples_s)


def replay(
    request: pytest.FixtureRequest, measurement: Measurement, properties: Mapping[str, object]
) -> None:
    """Let pytest-benchmark time the recorded samples of a measurement."""
    samples_s = [sample for run in measurement.runs for sample in run.samples_s]
    config, case = request.config, measurement.case
    has_benchmark = config.pluginmanager.hasplugin("benchmark")
    if not samples_s or not has_benchmark or config.getoption("benchmark_skip"):
        return
    clock = _ReplayClock(samples_s)
    group = f"{case.framework}.{case.strategy}"
    request.node.add_marker(pytest.mark.benchmark(timer=clock, group=group))
    benchmark = request.getfixturevalue("benchmark")
    iterations = measurement.runs[0].iterations
    benchmark.extra_info.update({_CASE: request.param.id, **properties})
    benchmark.extra_info["iterations_per_sample"] = iterations
    benchmark.pedantic(clock.step, rounds=len(samples_s), iterations=1)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_benchmark_group_stats(
    config: pytest.Config, benchmarks: list[dict[str, Any]]
) -> Generator[None, Sequence[object], Sequence[object]]:
    """Leave cases out of the table of pytest-benchmark, which has no GB/s, unless it is verbose."""
    if not config.getoption("benchmark_verbose"):
        benchmarks[:] = [row for row in benchmarks if _CASE not in row["extra_info"]]
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: list[object], output_json: dict[str, Any]
) -> None:
    """Name the case of each benchmark in place of objects that JSON cannot hold."""
    for row in output_json["benchmarks"]:
        if _CASE in row["extra_info"]:
            row["params"] = {"case": row["extra_info"][_CASE]}
            row["options"]["timer"] = "replayed"
