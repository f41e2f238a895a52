"""Test items and their verdicts: what the fixtures read, the session's item, their outcomes.

A case that was measured but not judged (noisy, no baseline, not comparable) is reported as skipped:
it is no failure, and it is not a pass either. pytest-benchmark records the samples, and whether it
is installed, disabled or told to skip changes no verdict.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome, plural

from . import MEASURED, OUTCOME, UNCOUNTED
from .config import SESSION, TOLD, VERDICT, judged_of, mode_in, spec_of, under_xdist

RUN_WITHOUT_XDIST = (
    "busbw measures alone on the machine: run perf items without -n "
    "(pytest-xdist would measure several at once)"
)


def verdict_of(request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict of a parameter; an error in a fixture would not count as a failure."""
    spec: Spec = request.param
    mode, judged = mode_in(request.config), judged_of(request.config)
    found = judged.verdicts.get(spec) if judged else None
    if found is None:
        text = RUN_WITHOUT_XDIST if under_xdist(request.config) else "it was not run"
        found = Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=text)
    known, measurement = mode.properties(found, judged), mode.measurement(spec, judged)
    request.node.stash[VERDICT] = found
    request.node.user_properties.extend(one for one in known.items() if one[1] is not None)
    if measurement is not None:
        _replay(request, measurement, known)
    return found


def read_by_all(found: SessionVerdict, items: Sequence[pytest.Item]) -> SessionVerdict:
    """`found`, or NO_VERDICT if a test was skipped before it read its own verdict."""
    unread = [item for item in items if spec_of(item) and VERDICT not in item.stash]
    if not unread:
        return found
    count = plural(len(unread), "case")
    text = f"{count} skipped before the verdict was read; the first is {unread[0].nodeid}"
    return found.with_outcome(SessionOutcome.NO_VERDICT, text)


# What went wrong in tests of busbw that no verdict says, until the session's verdict has it.
_ERRORS = pytest.StashKey[list[str]]()
_MOST_CHARACTERS = 200


def with_errors(found: SessionVerdict, config: pytest.Config) -> SessionVerdict:
    """Return `found`, or NO_VERDICT with the errors of tests that no verdict has said yet."""
    errors = config.stash.get(_ERRORS, [])
    if not errors:
        return found
    text = f"{plural(len(errors), 'error')} in the tests of busbw; the first is {errors[0]}"
    config.stash[_ERRORS] = []
    return found.with_outcome(SessionOutcome.NO_VERDICT, text)


def _keep_error(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    error: Any = call.excinfo.value if call.excinfo else None
    # Of an ExceptionGroup the first exception says more than the group.
    while getattr(error, "exceptions", ()):
        error = error.exceptions[0]
    reason = "" if error is None else f"{type(error).__name__}: {error}".splitlines()[0]
    text = f"{item.name} ({call.when}): {reason[:_MOST_CHARACTERS]}"
    item.config.stash.setdefault(_ERRORS, []).append(text)


class SessionItem(pytest.Item):
    """Fails if anything is wrong with the session as a whole, so that it is not green."""

    def runtest(self) -> None:
        if under_xdist(self.config):
            pytest.fail(RUN_WITHOUT_XDIST, pytrace=False)
        judged = judged_of(self.config)
        if judged is None:
            pytest.fail("nothing was run", pytrace=False)
        found = with_errors(read_by_all(judged.session, self.session.items), self.config)
        self.config.stash[SESSION] = replace(judged, session=found)
        self.stash[VERDICT] = found
        if found.failed:
            pytest.fail(found.headline(), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, "the session's verdict"


# Outcomes that neither fail nor pass.
_NOT_JUDGED = (
    Outcome.NOISY,
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.SKIPPED,
    Outcome.OUT_OF_MEMORY,
)

# What pytest itself prints for a test that passed, and for one that failed.
_USUAL_LETTERS = {Outcome.PASS: ".", Outcome.FAILED: "F"}

# outcome -> letter, and its category in pytest's last line
_LETTERS = {
    Outcome.REGRESSED: ("R", "regressed"),
    Outcome.IMPROVED: ("I", "improved"),
    Outcome.NOISY: ("~", "noisy"),
    Outcome.NO_BASELINE: ("n", "without baseline"),
    Outcome.OUT_OF_MEMORY: ("M", "out of memory"),
    Outcome.INCOMPARABLE: ("i", "incomparable"),
    Outcome.SKIPPED: ("s", "skipped"),
    Outcome.CHANGED: ("C", "changed"),
    Outcome.COMPILE_ERROR: ("E", "compile errors"),
}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The report of a perf item is its verdict's text, not an assertion's.

    It does not depend on an assertion: with ``python -O`` a failed case still fails, and so does
    one whose test is marked xfail or skips itself.
    """
    report = yield
    found = item.stash.get(VERDICT, None)
    is_ours = found is not None or isinstance(item, SessionItem) or spec_of(item) is not None
    is_told = call.when == "call" and found is not None and found.failed
    if report.failed and is_ours and not is_told:
        _keep_error(item, call)
    if call.when != "call" or found is None:
        return report
    vars(report)[OUTCOME] = found.outcome.value
    vars(report)[TOLD] = found.failed and report.failed
    if isinstance(found, SessionVerdict):
        # Failed cases are counted one by one.
        vars(report)[UNCOUNTED] = report.passed or found.outcome is SessionOutcome.FAILED
        return report
    if found.failed:
        vars(report)[TOLD] = True
        report.outcome = "failed"
        report.longrepr = found.explain()
        vars(report).pop("wasxfail", None)
    elif report.passed and not found.expected and found.outcome in _NOT_JUDGED:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, found.headline())
    return report


def letters_text(verdicts: Iterable[Verdict]) -> str:
    """Return what the letters of these verdicts mean, such as ``n NO_BASELINE``."""
    outcomes = dict.fromkeys(verdict.outcome for verdict in verdicts)
    known = {**_USUAL_LETTERS, **{outcome: letter for outcome, (letter, _) in _LETTERS.items()}}
    each = ", ".join(f"{known[outcome]} {outcome.value}" for outcome in outcomes)
    return (
        f"letters in the progress line: {each}; the last letter is the whole session's"
        if each
        else ""
    )


def status(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    name = getattr(report, OUTCOME, "")
    if getattr(report, UNCOUNTED, False) and report.when == "call":
        return (
            "",
            "F" if report.failed else ".",
            (name, {"red" if report.failed else "green": True}),
        )
    outcome = Outcome(name) if name in Outcome.__members__ else None
    if report.when != "call" or outcome not in _LETTERS:
        return None
    letter, category = _LETTERS[outcome]
    if report.failed:
        return "failed", letter, (name, {"red": True})
    return category, letter, (name, {"green" if report.passed else "yellow": True})


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


def _replay(
    request: pytest.FixtureRequest, measurement: Measurement, known: Mapping[str, object]
) -> None:
    samples_s = [sample for run in measurement.runs for sample in run.samples_s]
    config, case = request.config, measurement.case
    is_off = any(config.getoption(f"benchmark_{name}", False) for name in ("skip", "disable"))
    if not samples_s or is_off or not config.pluginmanager.hasplugin("benchmark"):
        return
    clock = _ReplayClock(samples_s)
    marker = pytest.mark.benchmark(timer=clock, group=f"{case.framework}.{case.strategy}")
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
    perf = {
        item: item.fixturenames
        for item in (items if config.getoption("benchmark_only", False) else ())
        if isinstance(item, pytest.Function) and spec_of(item) and MEASURED in item.fixturenames
    }
    for item, names in perf.items():
        item.fixturenames = [*names, "benchmark"]
    yield
    for item, names in perf.items():
        item.fixturenames = names


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_benchmark_group_stats(
    config: pytest.Config, benchmarks: list[dict[str, Any]]
) -> Generator[None, Sequence[object], Sequence[object]]:
    """Leave cases out of pytest-benchmark's table, unless it is asked for: it has no GB/s."""
    options = ((config.getoption(name, usual), usual) for name, usual in _OF_TABLE.items())
    if all((asked or usual) == usual for asked, usual in options):
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
