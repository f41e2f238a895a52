"""The mode of a session says what the session does with its cases: measure them, or something else.

The plugin collects, runs and shows a session through its Mode. An extension declares other modes in
its table MODES, by the name of the fixture that the tests read, as functions of the Options. Such a
function returns a Mode if the options request the mode, else None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from busbw import extensions, grid
from busbw.model.case import CaseSpec
from busbw.model.launch import Measurement
from busbw.model.verdict import Verdict
from busbw.model.words import plural
from busbw.report import session as report
from busbw.report.figures import document_figure_values
from busbw.report.table import Table, attributes_or_none, payload_span_text
from busbw.report.verdicts import legend_lines

from .options import Options
from .run import accept_and_write, run_session
from .state import CollectedSession, JudgedSession, MeasuredSession

# The tables of a session, and the lines that explain them.
Tables = tuple[Sequence[Table], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Mode:
    """How a session collects, runs, writes and shows its cases.

    Attributes:
        fixture: The fixture by which tests read the verdicts.
        collected_session: The session before any test is collected.
        add_specs: Returns the session with the cases of one more test, and these cases.
        header_text: Returns the line that announces the session.
        run_cases: Runs and judges the selected cases, as `run_session` does.
        write_files: Writes baselines, the history and the requested files, and returns the
            JudgedSession with the notes and errors of writing; None if nothing was measured.
        tables: Returns the tables of a session. The last argument is True with -v.
        case_properties: Returns the properties of a case in the JUnit XML file.

    """

    fixture: str
    collected_session: CollectedSession
    add_specs: Callable[[CollectedSession], tuple[CollectedSession, tuple[CaseSpec, ...]]]
    header_text: Callable[[Options], str]
    run_cases: Callable[..., JudgedSession] = run_session
    write_files: Callable[[JudgedSession], JudgedSession | None]
    tables: Callable[[JudgedSession, bool], Tables]
    case_properties: Callable[[Verdict, JudgedSession | None], dict[str, object]]


def mode_of(options: Options) -> Mode:
    """Return the mode that the options request: the mode of an extension, or else measuring.

    Raises UsageError if the options of a mode are wrong.
    """
    fixtures = dict.fromkeys(extensions.declared_names("MODES"))
    makers = (make for fixture in fixtures for make in extensions.load_functions(fixture, "MODES"))
    modes = (make(options) for make in makers)
    return next(filter(None, modes), None) or measuring_mode(options)


def measuring_mode(options: Options) -> Mode:
    """Return the mode that measures the cases of the options' grid."""
    return Mode(
        fixture="busbw_verdict",
        collected_session=CollectedSession(options=options),
        add_specs=add_specs,
        header_text=_header_text,
        write_files=accept_and_write,
        tables=_make_tables,
        case_properties=_junit_properties,
    )


def add_specs(collected_session: CollectedSession) -> tuple[CollectedSession, tuple[CaseSpec, ...]]:
    """Return `collected_session` with the cases of one more test, and the CaseSpecs of these cases.

    Raises GridError if the options select no case that can be measured.
    """
    specs = grid.select_specs(collected_session.options)
    return replace(
        collected_session, grid=tuple(dict.fromkeys((*collected_session.grid, *specs)))
    ), specs


def _header_text(options: Options) -> str:
    sizes = options.payloads
    return (
        f"busbw: {', '.join(options.frameworks)}, {plural(len(sizes), 'payload')} "
        f"({payload_span_text(sizes)}), "
        f"{', '.join(options.dtypes)}, {options.launches_text}"
        + (" of each side" if options.is_paired else "")
        + (f", --device={options.device.value}" if options.device else "")
    )


def _make_tables(judged_session: JudgedSession, verbose: bool) -> Tables:
    measured_session, verdicts = (
        judged_session.observations,
        tuple(judged_session.verdicts.values()),
    )
    if not isinstance(measured_session, MeasuredSession):
        return (), ()
    tables = report.session_tables(
        verdicts,
        measured_session.measurements.values(),
        verbose=verbose,
        changed_options=measured_session.environment.changed,
    )
    return tables, legend_lines(verdicts)


def _junit_properties(verdict: Verdict, judged_session: JudgedSession | None) -> dict[str, object]:
    properties = {
        "outcome": verdict.outcome.value,
        "provisional": verdict.provisional,
        **attributes_or_none(verdict.spec, "framework", "collective", "dtype"),
        **attributes_or_none(verdict.case, "strategy", "payload_bytes", "ranks"),
        **{figure.id: value for figure, value in document_figure_values(verdict).items()},
    }
    observed = judged_session.observations if judged_session else None
    if isinstance(observed, MeasuredSession) and verdict.spec in observed.measurements:
        key, versions = observed.environment.key, observed.environment.versions
        properties["device"], properties["shared_device"] = key.device_kind, key.shared or None
        properties["versions"] = report.versions_text(versions.get(verdict.spec.framework, {}))
    return properties


def find_measurement(spec: CaseSpec, judged_session: JudgedSession | None) -> Measurement | None:
    """Return the launches of a case, None if it was not measured."""
    observed = judged_session.observations if judged_session else None
    return observed.measurements.get(spec) if isinstance(observed, MeasuredSession) else None
