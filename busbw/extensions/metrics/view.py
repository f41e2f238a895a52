"""Write a session in the text format of Prometheus: outcomes, and every figure of every case.

https://prometheus.io/docs/instrumenting/exposition_formats describes the format. Values are in
seconds and bytes, and the name of a metric ends with its unit.
"""

from __future__ import annotations

import importlib.util
import re

from busbw.model.words import FailureKind
from busbw.report.figures import CASE_LABELS, Figure, figures_of
from busbw.session.record import View
from busbw.session.state import JudgedSession

_LABELS = {"case": lambda verdict: verdict.spec.id, **CASE_LABELS}


def metrics_view() -> View:
    """Return the View of --metrics: how a session writes its file and recognizes an earlier file.

    Raises ValueError if the library that writes metrics is missing.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise ValueError("metrics need busbw[metrics]: python -m pip install 'busbw[metrics]'")
    return View(
        kind="earlier metrics of busbw",
        recognizes_text=lambda text: text.startswith("# HELP busbw_session_failed "),
        text=metrics_text,
    )


def metrics_text(judged_session: JudgedSession) -> str:
    """Return the metrics of a judged session in the text format of Prometheus.

    The outcome of the session is included, and each figure of each case that has a value.
    """
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    session_verdict = judged_session.session_verdict
    gauges: dict[str, Gauge] = {}

    def set_gauge(name: str, help_text: str, value: float, **labels: str) -> None:
        if name not in gauges:
            gauges[name] = Gauge(f"busbw_{name}", help_text, labels, registry=registry)
        (gauges[name].labels(**labels) if labels else gauges[name]).set(value)

    set_gauge("session_failed", "1 unless the session is PASS", session_verdict.failed)
    for outcome in session_verdict.outcomes:
        set_gauge("session_outcome", "1 for each outcome of the session", 1, outcome=outcome.value)
    set_gauge(
        "session_began_timestamp_seconds",
        "when the session began",
        judged_session.observations.began.timestamp(),
    )
    for verdict in judged_session.verdicts.values():
        columns = {name: label(verdict) for name, label in _LABELS.items()}
        labels = {name: "" if value is None else str(value) for name, value in columns.items()}
        set_gauge(
            "case_outcome",
            "1 for the outcome of the case",
            1,
            **labels,
            outcome=verdict.outcome.value,
        )
        failure_kind = verdict.failure.kind if verdict.failure is not None else None
        is_wrong = failure_kind is FailureKind.WRONG_RESULT
        values = {
            "failed": ("1 for a case that failed", verdict.failed),
            "wrong": ("1 for a case with a wrong value", is_wrong),
            **{
                _metric_name(figure): (
                    f"the figure {figure.id} of the results",
                    figure.compute(verdict),
                )
                for figure in figures_of(verdict)
                if figure.in_documents
            },
        }
        for name, (help_text, value) in values.items():
            if value is not None:
                set_gauge(f"case_{name}", help_text, value, **labels)
    return generate_latest(registry).decode("utf-8")


def _metric_name(figure: Figure) -> str:
    """Return the name of a figure's metric, without the prefix ``busbw_case_``.

    The name ends with the unit in full, such as ``_seconds``.
    """
    name = re.sub("_per_s$", "_per_second", figure.metric or figure.id)
    return re.sub("_s$", "_seconds", name)
