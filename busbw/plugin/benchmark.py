"""pytest-benchmark as a recorder: our samples, replayed through its public fixture.

It shows its table and writes its JSON; it judges nothing, and whether it is there, disabled or
told to skip changes no verdict.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from busbw.model import Measurement, Run

from .selecting import spec_of
from .session import judged_of


class ReplayClock:
    """Moves only when told, by the time of the next recorded sample."""

    def __init__(self, samples_s: list[float]) -> None:
        self._samples_s = iter(samples_s)
        self._now_s = 0.0

    def __call__(self) -> float:
        """Now, in seconds."""
        return self._now_s

    def step(self) -> None:
        """Let one sample's time pass."""
        self._now_s += next(self._samples_s)


def replay(request: pytest.FixtureRequest, measurement: Measurement) -> None:
    """Give every sample of `measurement` to pytest-benchmark, if it is there and wants them."""
    samples_s = [sample for run in measurement.runs for sample in run.samples_s]
    if not samples_s or not _recording(request.config):
        return
    clock = ReplayClock(samples_s)
    case = measurement.case
    what = case.workload.word or case.strategy
    marker = pytest.mark.benchmark(timer=clock, group=f"{case.framework}.{what}")
    request.node.add_marker(marker)
    benchmark = request.getfixturevalue("benchmark")
    benchmark.extra_info.update(_extra(measurement.runs[0], measurement))
    benchmark.pedantic(clock.step, rounds=len(samples_s), iterations=1)


def _recording(config: pytest.Config) -> bool:
    if not config.pluginmanager.hasplugin("benchmark"):
        return False
    off = ("benchmark_skip", "benchmark_disable")
    return not any(config.getoption(name, False) for name in off)


def _extra(run: Run, measurement: Measurement) -> dict[str, object]:
    case = measurement.case
    return {
        "framework": case.framework,
        "strategy": case.strategy,
        "payload_bytes": case.payload_bytes,
        "ranks": case.ranks,
        "iterations_per_sample": run.iterations,
    }


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """--benchmark-only keeps perf items: they ask for pytest-benchmark's fixture as they run.

    It looks for the fixture's name among those of the test's own parameters.
    """
    asked = bool(config.getoption("benchmark_only", False))
    perf = [i for i in items if asked and isinstance(i, pytest.Function) and spec_of(i) is not None]
    names = [item.fixturenames for item in perf]
    for item in perf:
        item.fixturenames = [*item.fixturenames, "benchmark"]
    yield
    for item, before in zip(perf, names):
        item.fixturenames = before


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: list[object], output_json: dict[str, Any]
) -> None:
    """Add GB/s to every benchmark of ours: the table's own columns are times only."""
    judged = judged_of(config)
    by_name = {
        f"[{spec.id}]": verdict.now
        for spec, verdict in (judged.verdicts if judged else {}).items()
        if verdict.now is not None
    }
    for row in output_json["benchmarks"]:
        found = next((now for name, now in by_name.items() if row["name"].endswith(name)), None)
        if found is not None:
            row["extra_info"]["algbw_gb_per_s"] = found.algbw_gb_per_s
            row["extra_info"]["busbw_gb_per_s"] = found.busbw_gb_per_s
