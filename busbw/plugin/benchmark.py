"""pytest-benchmark as a recorder: each sample of a case is replayed through its public fixture.

It writes its JSON and, where one of its options on it is given, shows its table; it judges nothing.
Whether it is installed, disabled or told to skip changes no verdict.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pytest

from busbw.model.case import Spec
from busbw.model.launch import Measurement

from .session import spec_of

# The key in a benchmark's extra_info that says which case it is, and that it is one of busbw.
_CASE = "case"

# pytest-benchmark's options on its table, by their defaults.
_OF_TABLE: Mapping[str, object] = {
    "benchmark_columns": None,
    "benchmark_sort": "min",
    "benchmark_group_by": "group",
    "benchmark_name": "normal",
    "benchmark_time_unit": None,
    "benchmark_verbose": False,
    "benchmark_only": False,
    "benchmark_compare": [],
    "benchmark_histogram": [],
}


class _ReplayClock:
    """Moves only when told, by the time of the next recorded sample."""

    def __init__(self, samples_s: list[float]) -> None:
        self._samples_s = iter(samples_s)
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def step(self) -> None:
        self._now_s += next(self._samples_s)


def replay(
    request: pytest.FixtureRequest, measurement: Measurement, known: Mapping[str, object]
) -> None:
    samples_s = [sample for run in measurement.runs for sample in run.samples_s]
    config, case = request.config, measurement.case
    is_off = any(config.getoption(f"benchmark_{name}", False) for name in ("skip", "disable"))
    if not samples_s or is_off or not config.pluginmanager.hasplugin("benchmark"):
        return
    clock = _ReplayClock(samples_s)
    what = case.workload.word or case.strategy
    marker = pytest.mark.benchmark(timer=clock, group=f"{case.framework}.{what}")
    request.node.add_marker(marker)
    benchmark = request.getfixturevalue("benchmark")
    benchmark.extra_info.update(
        {_CASE: request.param.id, **known},
        iterations_per_sample=measurement.runs[0].iterations,
    )
    benchmark.pedantic(clock.step, rounds=len(samples_s), iterations=1)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """--benchmark-only keeps perf items, which request its fixture only while they run."""
    asked = bool(config.getoption("benchmark_only", False))
    measured = [item for item in items if asked and isinstance(spec_of(item), Spec)]
    perf = [item for item in measured if isinstance(item, pytest.Function)]
    names = [item.fixturenames for item in perf]
    for item in perf:
        item.fixturenames = [*item.fixturenames, "benchmark"]
    yield
    for item, before in zip(perf, names):
        item.fixturenames = before


def _is_asked_for(config: pytest.Config) -> bool:
    return any(
        (config.getoption(name, usual) or usual) != usual for name, usual in _OF_TABLE.items()
    )


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_benchmark_group_stats(
    config: pytest.Config, benchmarks: list[dict[str, Any]], group_by: str
) -> Generator[None, Sequence[object], Sequence[object]]:
    """Leave cases out of pytest-benchmark's table, unless it is asked for: it has no GB/s."""
    if not _is_asked_for(config):
        benchmarks[:] = [one for one in benchmarks if _CASE not in one["extra_info"]]
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
