"""Make the cases parameters of tests, read their verdicts, and report the outcomes of tests.

A case that was measured but not judged is reported as skipped, because the case neither failed nor
passed: it is noisy, has no baseline or cannot be compared. The session has an item of its own. For
its own files pytest-benchmark gets the recorded samples and the figures of each case. No verdict
depends on whether pytest-benchmark is installed, disabled or skips benchmarks.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.case import CaseSpec, GridError
from busbw.model.launch import Measurement
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome, plural
from busbw.session.option import UsageError

from .config import (
    CASE_ITEMS_KEY,
    JUDGED_SESSION_KEY,
    MODE_KEY,
    SESSION_KEY,
    UNDESCRIBED_ERRORS_KEY,
    VERDICT_KEY,
    begin_session,
    case_items,
    spec_of,
)

# The name of the attribute with the verdict that the test of a report has read.
VERDICT_ATTRIBUTE = "busbw_verdict"

# The key of the case's id in `extra_info` of a benchmark. Only benchmarks of busbw have this key.
_CASE_KEY = "case"

# How much of an error's first line is shown.
_MAX_REASON_CHARACTERS = 200


def belongs_to_other_mode(config: pytest.Config, fixtures: set[str]) -> bool:
    """Return whether a test function reads fixtures of another mode than the session's mode.

    `fixtures` are the fixtures of busbw that the function reads. The result is also True if the
    options cannot be used; `pytest_collection_finish` then raises an error.
    """
    collected = begin_session(config)
    return isinstance(collected, UsageError) or fixtures != {config.stash[MODE_KEY].fixture}


def parametrize_test(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the cases of the session's mode.

    If no such cases exist, the error is kept for `pytest_collection_finish`. Raised here, the error
    would look like a broken test.
    """
    config = metafunc.config
    collected = begin_session(config)
    if (
        isinstance(collected, UsageError)
        or config.stash[MODE_KEY].fixture not in metafunc.fixturenames
    ):
        return
    mode = config.stash[MODE_KEY]
    specs: tuple[CaseSpec, ...] = ()
    try:
        specs = mode.select_specs(collected.options)
        # Several tests may have the same cases.
        grid = tuple(dict.fromkeys((*collected.grid, *specs)))
        config.stash[SESSION_KEY] = replace(collected, grid=grid)
    except GridError as error:
        config.stash[SESSION_KEY] = UsageError(str(error))
    metafunc.parametrize(mode.fixture, specs, ids=[spec.id for spec in specs], indirect=True)


def verdict_of(request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict of the case that is the parameter of `request`.

    The verdict is also recorded in the test item. A case that was not run gets the outcome FAILED.
    An exception would not do: pytest does not count an error in a fixture as a failed test.
    """
    spec: CaseSpec = request.param
    stash = request.config.stash
    mode, judged = stash[MODE_KEY], stash.get(JUDGED_SESSION_KEY, None)
    verdict = judged.verdicts.get(spec) if judged else None
    if verdict is None:
        verdict = Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text="it was not run")
    properties = mode.make_junit_properties(verdict, judged)
    request.node.stash[VERDICT_KEY] = verdict
    request.node.user_properties.extend(
        (name, figure) for name, figure in properties.items() if figure is not None
    )
    measurement = judged.observations.measurements.get(spec) if judged else None
    if measurement is not None:
        _replay_samples(request, measurement, properties)
    return verdict


def _replay_samples(
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


def session_verdict(session: pytest.Session) -> SessionVerdict | None:
    """Return the verdict of the session; None if the cases were not run or not judged.

    NO_VERDICT is added to its outcomes if the test of a case did not read the verdict of the case,
    if a test of busbw raised an error that no verdict describes, or if pytest-benchmark skips
    benchmarks.
    """
    judged = session.config.stash.get(JUDGED_SESSION_KEY, None)
    if judged is None:
        return None
    verdict, texts = judged.session_verdict, list[str]()
    unread_items = [
        item
        for item in session.config.stash.get(CASE_ITEMS_KEY, {})
        if VERDICT_KEY not in item.stash
    ]
    if unread_items:
        texts.append(
            f"{plural(len(unread_items), 'case')} left out before the verdict was read; the first "
            f"is {unread_items[0].nodeid}"
        )
    errors = session.config.stash.get(UNDESCRIBED_ERRORS_KEY, [])
    if errors:
        texts.append(
            f"{plural(len(errors), 'error')} in the tests of busbw; the first is {errors[0]}"
        )
    if session.config.getoption("benchmark_skip", False):
        texts.append(
            "--benchmark-skip asks that benchmarks be skipped; a skipped session is not green"
        )
    for text in texts:
        verdict = verdict.with_failure(SessionOutcome.NO_VERDICT, text)
    return verdict


class SessionItem(pytest.Item):
    """The last test item, which fails if the verdict of the session fails."""

    def runtest(self) -> None:
        """Record the verdict of the session in the item, and fail if the verdict fails."""
        verdict = session_verdict(self.session)
        if verdict is None:
            pytest.fail("nothing was run", pytrace=False)
        self.stash[VERDICT_KEY] = verdict
        if verdict.failed:
            pytest.fail(verdict.headline(), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Append the item of the session after all other items, or raise an error of the options.

    Options such as -k, --lf and --ff, which deselect and sort items, do not affect this item.
    """
    if SESSION_KEY not in session.config.stash:
        return
    collected, cases = begin_session(session.config), case_items(session)
    if isinstance(collected, UsageError):
        raise pytest.UsageError(f"busbw: {collected}")
    if cases:
        module = list(cases)[-1].getparent(pytest.Module)
        assert module is not None
        session.items.append(SessionItem.from_parent(module, name="session"))


# Outcomes of cases that neither fail nor pass. pytest reports these cases as skipped.
_UNJUDGED_OUTCOMES = (
    Outcome.NOISY,
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.SKIPPED,
    Outcome.OUT_OF_MEMORY,
)

# For each outcome that pytest does not know, the category in pytest's last line.
_CATEGORIES: dict[Outcome | SessionOutcome, str] = {
    Outcome.REGRESSED: "regressed",
    Outcome.IMPROVED: "improved",
    Outcome.NOISY: "noisy",
    Outcome.NO_BASELINE: "without baseline",
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.INCOMPARABLE: "incomparable",
    Outcome.SKIPPED: "skipped",
    Outcome.CHANGED: "changed",
    Outcome.COMPILE_ERROR: "compile errors",
}

# The letter and the color in the progress line, by the outcome of pytest.
_STYLES = {"passed": (".", "green"), "skipped": ("s", "yellow"), "failed": ("F", "red")}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the report of a case's test the outcome of the verdict that the test read.

    A failed verdict always fails the test: under ``python -O``, which drops assertions, and
    also if the test is marked xfail or skips itself. If the verdict is no judgement, such as NOISY,
    a passed test is reported as skipped, unless the verdict is expected. Other reports, and the
    report of the session's test, keep their outcome.
    """
    report = yield
    verdict = item.stash.get(VERDICT_KEY, None)
    is_case = spec_of(item) is not None
    is_failed_call = call.when == "call" and verdict is not None and verdict.failed
    if report.failed and (is_case or isinstance(item, SessionItem)) and not is_failed_call:
        _keep_error(item, call)
    if call.when != "call" or verdict is None:
        return report
    vars(report)[VERDICT_ATTRIBUTE] = verdict
    if isinstance(verdict, SessionVerdict):
        return report
    if verdict.failed:
        report.outcome = "failed"
        report.longrepr = verdict.explain()
        vars(report).pop("wasxfail", None)
    elif report.passed and not verdict.expected and verdict.outcome in _UNJUDGED_OUTCOMES:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, verdict.headline())
    return report


def _keep_error(item: pytest.Item, call_info: pytest.CallInfo[None]) -> None:
    """Add the error of a test of busbw to the errors that no verdict describes."""
    error: Any = call_info.excinfo.value if call_info.excinfo else None
    # The first exception of an ExceptionGroup says more than the group.
    while getattr(error, "exceptions", ()):
        error = error.exceptions[0]
    reason = "" if error is None else f"{type(error).__name__}: {error}".splitlines()[0]
    text = f"{item.name} ({call_info.when}): {reason[:_MAX_REASON_CHARACTERS]}"
    item.config.stash.setdefault(UNDESCRIBED_ERRORS_KEY, []).append(text)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    """Return the outcome of a case, to be shown in place of pytest's passed, failed or skipped.

    The values are the category in pytest's last line, the letter in the progress, and the word with
    its color. Returns None for a report without a case.
    """
    verdict = getattr(report, VERDICT_ATTRIBUTE, None)
    # Failed cases are counted one by one, so the session that fails with them is not counted.
    is_uncounted = isinstance(verdict, SessionVerdict) and (
        report.passed or verdict.outcome is SessionOutcome.FAILED
    )
    if verdict is None or not (is_uncounted or verdict.outcome in _CATEGORIES):
        return None
    letter, color = _STYLES[report.outcome]
    category = "" if is_uncounted else "failed" if report.failed else _CATEGORIES[verdict.outcome]
    return category, letter, (verdict.outcome.value, {color: True})


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
