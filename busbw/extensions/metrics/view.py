"""Write a session in the text format of Prometheus: outcomes, and every figure of every case.

https://prometheus.io/docs/instrumenting/exposition_formats describes the format. Values are in
seconds and bytes, and the name of a metric ends with its unit.
"""

from __future__ import annotations

import importlib.util
import re

from busbw.model.words import FailureKind
from busbw.report.figures import CASE_LABELS, Figure, figure_values_for_documents, figures_of
from busbw.session.record import View
from busbw.session.state import JudgedSession

_PREFIX = "busbw"
_FIRST_LINE = f"# HELP {_PREFIX}_session_failed "
_LABELS = ("case", *CASE_LABELS)


def metrics_view() -> View:
    """Return the View of --metrics: how a session writes its file and recognizes an earlier file.

    Raises ValueError if the library that writes metrics is missing.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise ValueError("metrics need busbw[metrics]: python -m pip install 'busbw[metrics]'")
    return View(
        kind="earlier metrics of busbw",
        recognizes_text=lambda text: text.startswith(_FIRST_LINE),
        text=metrics_text,
    )


def metrics_text(judged_session: JudgedSession) -> str:
    """Return the metrics of a judged session in the text format of Prometheus.

    The outcome of the session is included, and each figure of each case that has a value.
    """
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry, session_verdict = CollectorRegistry(), judged_session.session_verdict
    verdicts, began = judged_session.verdicts.values(), judged_session.observations.began

    def add_gauge(name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", help_text, labels, registry=registry)

    add_gauge("session_failed", "1 unless the session is PASS").set(session_verdict.failed)
    outcomes = add_gauge("session_outcome", "1 for each outcome of the session", "outcome")
    for outcome in session_verdict.outcomes:
        outcomes.labels(outcome.value).set(1)
    add_gauge("session_began_timestamp_seconds", "when the session began").set(began.timestamp())
    failed = add_gauge("case_failed", "1 for a case that failed", *_LABELS)
    has_wrong_value = add_gauge("case_wrong", "1 for a case with a wrong value", *_LABELS)
    outcome_of = add_gauge("case_outcome", "1 for the outcome of the case", *_LABELS, "outcome")
    figures = {figure.id: figure for verdict in verdicts for figure in figures_of(verdict)}
    gauges = {
        name: add_gauge(*_metric_name_and_help(figure), *_LABELS)
        for name, figure in figures.items()
        if figure.in_documents
    }
    for verdict in verdicts:
        values = (label(verdict) for label in CASE_LABELS.values())
        labels = [verdict.spec.id, *("" if value is None else str(value) for value in values)]
        failed.labels(*labels).set(verdict.failed)
        kind = verdict.failure.kind if verdict.failure is not None else None
        has_wrong_value.labels(*labels).set(kind is FailureKind.WRONG_RESULT)
        outcome_of.labels(*labels, verdict.outcome.value).set(1)
        for name, value in figure_values_for_documents(verdict).items():
            if value is not None:
                gauges[name].labels(*labels).set(value)
    return generate_latest(registry).decode("utf-8")


def _metric_name_and_help(figure: Figure) -> tuple[str, str]:
    """Return the name of a figure's metric, without the prefix ``busbw_``, and a help text.

    The name ends with the unit in full, such as ``_seconds``.
    """
    name = re.sub("_per_s$", "_per_second", figure.metric or figure.id)
    return f"case_{re.sub('_s$', '_seconds', name)}", f"the figure {figure.id} of the results"
