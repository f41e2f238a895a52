"""What a session does with its cases: it measures them, or what an extension does instead.

The plugin collects, runs and shows a session through its Mode. An extension has a table MODES, from
the name of the fixture that its tests read to a function that returns a Mode if the options ask for
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw import extensions
from busbw.judge.case import summary_of
from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.verdict import Verdict
from busbw.model.words import plural
from busbw.report import session as report
from busbw.report.figures import document_figures
from busbw.report.table import Table, attributes, span_text
from busbw.report.verdicts import legend
from busbw.stats.launches import launch_time_s

from . import phases, selection
from .option import Given
from .settings import settings_of
from .state import Collected, Judged, Measured, Observed

# The fixture of the tests that measure.
MEASURED = "busbw_verdict"

# The tables of a session, and the lines that explain them.
Tables = tuple[Sequence[Table], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Mode:
    """How a session is collected, run, written and shown; tests read its verdicts by `fixture`.

    `collected` is the session without cases, `with_specs` adds the cases of one test, `problem`
    says why selected cases cannot be run as the options say, and `header` what is going to be done.
    `judged` runs and judges the cases, and `written` writes what the options ask for, or returns
    None. `tables` makes tables, also of a session that was interrupted, and `properties` what
    JUnit's file has of a case. `measurement` has launches of which pytest-benchmark keeps records.
    """

    fixture: str
    collected: Collected
    with_specs: Callable[[Collected], tuple[Collected, tuple[Spec, ...]]]
    header: Callable[[Collected], str]
    judged: Callable[[Collected, Sequence[Spec], phases.Surroundings], Judged]
    written: Callable[[Judged], Judged | None]
    tables: Callable[[Observed | None, Judged | None, bool], Tables]
    properties: Callable[[Verdict, Judged | None], dict[str, object]]
    problem: Callable[[Collected, Sequence[Spec]], str] = lambda collected, specs: ""
    measurement: Callable[[Spec, Judged | None], Measurement | None] = lambda spec, judged: None


def mode_of(given: Given) -> Mode:
    """Return the mode that the options ask for. Raises UsageError."""
    fixtures = dict.fromkeys(extensions.names("MODES"))
    makers = (make for fixture in fixtures for make in extensions.hooks(fixture, "MODES"))
    modes = (make(given) for make in makers)
    return next(filter(None, modes), None) or measuring(given)


def measuring(given: Given) -> Mode:
    """Return the mode that measures the options' grid. Raises UsageError."""
    return Mode(
        fixture=MEASURED,
        collected=Collected(settings=settings_of(given)),
        with_specs=selection.with_specs,
        problem=selection.problem,
        header=_header,
        judged=phases.judged,
        written=phases.written,
        tables=_tables_of,
        properties=_properties,
        measurement=_measurement,
    )


def _header(collected: Collected) -> str:
    settings = collected.settings
    sizes = settings.asked.payloads
    device = f", --device={settings.device.value}" if settings.device else ""
    span = span_text(sizes) if sizes else "none"
    grid = f"{plural(len(sizes), 'payload')} ({span}), {', '.join(settings.asked.dtypes)}"
    return (
        f"busbw: {', '.join(settings.frameworks)}, {grid}, {plural(settings.launches, 'launch')}"
        + (" of each side" if settings.against else "")
        + device
    )


def _tables_of(observed: Observed | None, judged: Judged | None, verbose: bool) -> Tables:
    if not isinstance(observed, Measured):
        return (), ()
    verdicts = tuple((judged.verdicts if judged else observed.skipped).values())
    tables = report.session_tables(
        verdicts,
        observed.measurements.values(),
        judged.groups if judged else (),
        verbose=verbose,
        changed=observed.environment.changed,
    )
    if observed.interrupted:
        summaries = [
            (one.case, summary_of(one.case, [launch_time_s(run) for run in one.runs]))
            for one in observed.measurements.values()
            if one.runs
        ]
        tables.append(report.measured_table(summaries, observed.plan.launches))
    return tables, legend(verdicts)


def _properties(verdict: Verdict, judged: Judged | None) -> dict[str, object]:
    known = {
        "outcome": verdict.outcome.value,
        "provisional": verdict.provisional,
        **attributes(verdict.spec, "framework", "collective", "dtype"),
        **attributes(verdict.case, "strategy", "payload_bytes", "ranks"),
        **{figure.id: value for figure, value in document_figures(verdict).items()},
    }
    observed = judged.observed if judged else None
    if isinstance(observed, Measured) and verdict.spec in observed.measurements:
        key, versions = observed.environment.key, observed.environment.versions
        known["device"], known["shared_device"] = key.device_kind, key.shared or None
        known["versions"] = report.versions_text(versions.get(verdict.spec.framework, {}))
    return known


def _measurement(spec: Spec, judged: Judged | None) -> Measurement | None:
    observed = judged.observed if judged else None
    return observed.measurements.get(spec) if isinstance(observed, Measured) else None
