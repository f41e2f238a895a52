"""Read the load after each case, and show it in a column and in a note."""

from collections.abc import Mapping
from dataclasses import replace

from busbw.driver.executor import Executor
from busbw.driver.schedules import Side
from busbw.driver.transport import Request
from busbw.judge.decision import Finding
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import NO_GROUP
from busbw.model.verdict import Verdict
from busbw.report.figures import Figure
from busbw.session.machine import worker_spec_of
from busbw.session.measure import Observer
from busbw.session.state import JudgedSession, MeasuredSession

# The types of the values in results: the load after a case, and the loads by names of cases.
Load, Loads = float, Mapping[str, float]

# Without `is_fitted_to_cells` a column needs a width.
COLUMNS = (
    Figure(
        "load",
        "load",
        text="{:.2f}".format,
        is_fitted_to_cells=True,
        compute=lambda verdict: verdict.extra.get("load"),
    ),
)


def make_observer(resolved_session: MeasuredSession, executor: Executor) -> Observer | None:
    """Return what reads the load after each case, None without the option."""
    if not resolved_session.options.extra.get("show_load"):
        return None
    target = resolved_session.machine.target
    framework = next(iter(target.device_sets))
    worker_spec = worker_spec_of(
        resolved_session.options, framework, Side.CANDIDATE, device=target.device
    )
    worker_spec = replace(worker_spec, service="load", cluster=NO_GROUP)
    group = executor.open_group(worker_spec, LaunchId(name="load"))
    loads: dict[str, float] = {}

    def observe(case: Case | None) -> None:
        """Ask the worker after a case; None is the start of a launch."""
        if case is not None and not isinstance(group, Failure):
            replies = group.ask_each(Request("load", float), 10.0, "reading the load")
            # The worker as a whole can fail, or its single reply.
            if not isinstance(replies, Failure) and not isinstance(replies[0], Failure):
                loads[case.name] = replies[0]

    return Observer(observe, lambda: dict(loads) or None)


def finding_at(measured_session: MeasuredSession, spec: CaseSpec, verdict: Verdict) -> Finding:
    """Give the verdict of a case the load after it."""
    loads = measured_session.extra.get("loads", {})
    load = loads.get(measured_session.jobs[spec].case.name)
    return Finding() if load is None else Finding(extra={"load": load})


def notes_of(judged_session: JudgedSession) -> list[str]:
    """Return the note about the load, which is shown above the verdict of the session."""
    measured_session = judged_session.observations
    if not isinstance(measured_session, MeasuredSession):
        return []
    loads = measured_session.extra.get("loads", {})
    return [f"the highest load after a case was {max(loads.values()):.2f}"] if loads else []
