"""Give tests their cases and verdicts, and report the outcomes of cases as outcomes of tests.

A case that was measured but not judged is reported as a skipped test: such a case is noisy, has no
baseline, or cannot be compared. The last test item stands for the session, and fails if the session
fails. If pytest-benchmark is installed, it gets the recorded samples and the figures of each case,
for its own tables and files. No verdict depends on pytest-benchmark.
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
    case_spec_of_item,
    case_specs_by_item,
)

# The name of the attribute of a test report that holds the verdict that the test has read.
VERDICT_ATTRIBUTE = "busbw_verdict"

# The key of the case's id in `extra_info` of a benchmark. Only benchmarks of busbw have this key.
_CASE_KEY = "case"

# How much of an error's first line is shown.
_MAX_REASON_CHARACTERS = 200


def are_fixtures_of_other_mode(config: pytest.Config, fixture_names: set[str]) -> bool:
    """Return whether a test function is for another mode than the mode of the session.

    `fixture_names` are the fixtures of busbw that the test function reads. The result is also True
    if the options of busbw cannot be used. In this case `pytest_collection_finish` raises the error
    later.
    """
    collected = begin_session(config)
    return isinstance(collected, UsageError) or fixture_names != {config.stash[MODE_KEY].fixture}


def parametrize_test(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the cases that the mode of the session selects.

    If no cases can be selected, the error is stored, and `pytest_collection_finish` raises it
    later. An error that is raised here would look like a broken test.
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


def record_verdict(request: pytest.FixtureRequest) -> Verdict:
    """Record the verdict of a test's case in the test item, and return the verdict.

    The case is the parameter of `request`. The figures of the verdict become properties in JUnit
    XML, and pytest-benchmark gets the samples. A case that was not run gets the outcome FAILED.
    (If this fixture raised an exception, pytest would not count the test as failed.)
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
    """Give pytest-benchmark the recorded samples of a case, as if it had timed them itself.

    pytest-benchmark times an empty function, with a timer that replays the samples. Nothing is done
    if there are no samples, or if pytest-benchmark is missing or skips benchmarks.

    Args:
        request: The request of the fixture that reads the verdict.
        measurement: The measurement of the case, with its samples.
        properties: The figures of the case, which pytest-benchmark stores as `extra_info`.

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
    """Return the verdict of the session; None if its cases were not run or not judged.

    The outcome NO_VERDICT is added in three cases: a test of a case has not read the verdict, a
    test of busbw raised an error that no verdict describes, or pytest-benchmark skips benchmarks.
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
    """The last test item, which stands for the session, and fails if the session fails."""

    def runtest(self) -> None:
        """Record the verdict of the session in this item, and fail if the session fails."""
        verdict = session_verdict(self.session)
        if verdict is None:
            pytest.fail("nothing was run", pytrace=False)
        self.stash[VERDICT_KEY] = verdict
        if verdict.failed:
            pytest.fail(verdict.headline(), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Append the item of the session after all other items, or raise the error of wrong options.

    Options that deselect or sort items, such as -k, --lf and --ff, do not affect the item of the
    session, because pytest has already applied them. Raises pytest.UsageError if the options of
    busbw cannot be used.
    """
    if SESSION_KEY not in session.config.stash:
        return
    collected, cases = begin_session(session.config), case_specs_by_item(session)
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
    """Set the outcome of a test report by the verdict that the test read.

    If the verdict fails, the test fails, even if its assertions are dropped (``python -O``), if it
    is marked xfail, or if it skips itself. If the verdict neither fails nor passes, such as NOISY,
    a passed test is reported as skipped, unless this outcome was expected. Reports of other tests,
    and of the item of the session, keep their outcome.
    """
    report = yield
    verdict = item.stash.get(VERDICT_KEY, None)
    is_case = case_spec_of_item(item) is not None
    is_failed_call = call.when == "call" and verdict is not None and verdict.failed
    if report.failed and (is_case or isinstance(item, SessionItem)) and not is_failed_call:
        _record_undescribed_error(item, call)
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


def _record_undescribed_error(item: pytest.Item, call_info: pytest.CallInfo[None]) -> None:
    """Store the first line of an error in a test of busbw, which no verdict of a case describes."""
    error: Any = call_info.excinfo.value if call_info.excinfo else None
    # The first exception of an ExceptionGroup says more than the group.
    while getattr(error, "exceptions", ()):
        error = error.exceptions[0]
    reason = "" if error is None else f"{type(error).__name__}: {error}".splitlines()[0]
    text = f"{item.name} ({call_info.when}): {reason[:_MAX_REASON_CHARACTERS]}"
    item.config.stash.setdefault(UNDESCRIBED_ERRORS_KEY, []).append(text)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    """Return how pytest shows the outcome of a case or of the session, such as REGRESSED.

    Returns three values: the category in pytest's last line, the letter in the progress line, and
    the word of verbose output with its color. Returns None if pytest shows its own word, such as
    PASSED.
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
    """Remove the cases of busbw from pytest-benchmark's table, unless --benchmark-verbose is set.

    The tables of busbw show the same times, and also GB/s.
    """
    if not config.getoption("benchmark_verbose"):
        benchmarks[:] = [row for row in benchmarks if _CASE_KEY not in row["extra_info"]]
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: list[object], output_json: dict[str, Any]
) -> None:
    """Replace the parameters and the timer of each case by names, because JSON cannot hold them."""
    for row in output_json["benchmarks"]:
        if _CASE_KEY in row["extra_info"]:
            row["params"] = {"case": row["extra_info"][_CASE_KEY]}
            row["options"]["timer"] = "replayed"
