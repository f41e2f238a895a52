"""The option --metrics, and the text that it writes in the format of Prometheus.

https://prometheus.io/docs/instrumenting/exposition_formats describes the format. Values are in
seconds and bytes, and the name of a metric ends with its unit.
"""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

from busbw.model.words import FailureKind
from busbw.session.option import Option, parse_text

# Sessions that write no metrics load this file for its option, but neither the judge nor reports.
if TYPE_CHECKING:
    from busbw.session.record import OutputFileKind
    from busbw.session.state import JudgedSession

METRICS = Option(
    name="metrics",
    arguments={
        "type": parse_text,
        "metavar": "FILE",
        "help": "Write outcomes and figures to FILE in the text format of Prometheus. Needs "
        "busbw[metrics]",
    },
)


def metrics_view() -> OutputFileKind:
    """Return how to make the text of the file of --metrics, and how to recognize an earlier file.

    An earlier file of metrics may be overwritten. Raises ValueError if the package
    prometheus_client is missing.
    """
    from busbw.session.record import OutputFileKind

    if importlib.util.find_spec("prometheus_client") is None:
        raise ValueError("metrics need busbw[metrics]: python -m pip install 'busbw[metrics]'")
    return OutputFileKind(
        kind="earlier metrics of busbw",
        recognizes_text=lambda text: text.startswith("# HELP busbw_session_failed "),
        text=metrics_text,
    )


def metrics_text(judged_session: JudgedSession) -> str:
    """Return the metrics of a judged session in the text format of Prometheus.

    The metrics are the outcome and the start of the session and, for each case, its outcome and
    each figure that has a value.
    """
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    from busbw.report.figures import CASE_LABELS, figures_of

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}

    def set_gauge(name: str, help_text: str, value: float, **labels: object) -> None:
        if name not in gauges:
            gauges[name] = Gauge(f"busbw_{name}", help_text, labels, registry=registry)
        (gauges[name].labels(**labels) if labels else gauges[name]).set(value)

    set_gauge(
        "session_failed",
        "1 unless the session is PASS",
        judged_session.session_verdict.failed,
    )
    for outcome in judged_session.session_verdict.outcomes:
        set_gauge("session_outcome", "1 for each outcome of the session", 1, outcome=outcome)
    set_gauge(
        "session_began_timestamp_seconds",
        "when the session began",
        judged_session.observations.began.timestamp(),
    )
    for verdict in judged_session.verdicts.values():
        columns = {
            "case": verdict.spec.id,
            **{name: label(verdict) for name, label in CASE_LABELS.items()},
        }
        labels = {name: "" if value is None else value for name, value in columns.items()}
        set_gauge(
            "case_outcome",
            "1 for the outcome of the case",
            1,
            **labels,
            outcome=verdict.outcome,
        )
        set_gauge("case_failed", "1 for a case that failed", verdict.failed, **labels)
        is_wrong = verdict.failure is not None and verdict.failure.kind is FailureKind.WRONG_RESULT
        set_gauge("case_wrong", "1 for a case with a wrong value", is_wrong, **labels)
        for figure in figures_of(verdict):
            value = figure.compute(verdict) if figure.in_documents else None
            if value is not None:
                # A metric's name has the unit in full.
                name = re.sub("_per_s$", "_per_second", figure.metric or figure.id)
                name = re.sub("_s$", "_seconds", f"case_{name}")
                set_gauge(name, f"the figure {figure.id} of the results", value, **labels)
    return generate_latest(registry).decode("utf-8")
