"""Read the load after each case, and show it in a column and in a note."""

from collections.abc import Mapping
from dataclasses import replace

from busbw.driver.schedules import Side
from busbw.driver.transport import Request
from busbw.judge.decision import Finding
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import ALONE
from busbw.report.figures import Figure
from busbw.session.machine import starter_of
from busbw.session.measure import Observer

# The types of the values in results: the load after a case, and the loads by names of cases.
Load, Loads = float, Mapping[str, float]

COLUMNS = (
    Figure("load", "load", text="{:.2f}".format, compute=lambda verdict: verdict.extra.get("load")),
)


def observer_of(resolved, executor):
    """Return what reads the load after each case, None without the option."""
    if not resolved.options.extra.get("show_load"):
        return None
    target = resolved.machine.target
    framework = next(iter(target.device_sets))
    starter = starter_of(resolved.options, framework, Side.CANDIDATE, device=target.device)
    starter = replace(starter, service="load", cluster=ALONE)
    group = executor.open_group(starter, LaunchId(name="load"))
    loads = {}

    def observe(case):
        """Ask the worker after a case; None is the begin of a launch."""
        if case is not None and not isinstance(group, Failure):
            replies = group.ask_each(Request("load", float), 10.0, "reading the load")
            if not isinstance(replies, Failure):
                loads[case.name] = replies[0]

    return Observer(observe, lambda: dict(loads) or None)


def finding_at(measured, spec, verdict):
    """Give the verdict of a case the load after it."""
    load = measured.extra.get("loads", {}).get(measured.jobs[spec].case.name)
    return Finding() if load is None else Finding(extra={"load": load})


def notes_of(judged):
    """Return the last line of the session about the load."""
    loads = judged.observations.extra.get("loads", {})
    return [f"the highest load after a case was {max(loads.values()):.2f}"] if loads else []
