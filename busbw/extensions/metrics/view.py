"""A session in the text format of Prometheus: outcomes, and every figure of every case.

https://prometheus.io/docs/instrumenting/exposition_formats: seconds, bytes, and a name for each
figure that ends in its unit.
"""

from __future__ import annotations

import importlib.util
import re

from busbw.report.figures import IDENTITY, Figure, document_figures
from busbw.session.files import View
from busbw.session.state import Judged

_MISSING = "metrics need busbw[metrics]: python -m pip install 'busbw[metrics]'"
_PREFIX = "busbw"
_FIRST = f"# HELP {_PREFIX}_session_failed "
_LABELS = ("case", *IDENTITY)


def metrics_view() -> View:
    """Return the view of --metrics."""
    is_installed = importlib.util.find_spec("prometheus_client") is not None
    return View(
        kind="earlier metrics of busbw",
        is_kind=lambda text: text.startswith(_FIRST),
        missing="" if is_installed else _MISSING,
        text=metrics,
    )


def metrics(judged: Judged) -> str:
    """Return the metrics of a session."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry, session = CollectorRegistry(), judged.session_verdict
    verdicts, began = judged.verdicts.values(), judged.collected.began

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels, registry=registry)

    gauge("session_failed", "1 unless the session is PASS").set(session.failed)
    outcomes = gauge("session_outcome", "1 for what holds of the session", "outcome")
    for outcome in session.outcomes:
        outcomes.labels(outcome.value).set(1)
    gauge("session_began_timestamp_seconds", "when it began").set(began.timestamp())
    failed = gauge("case_failed", "1 for a case that failed", *_LABELS)
    has_wrong_value = gauge("case_wrong", "1 for a case with a wrong value", *_LABELS)
    outcome_of = gauge("case_outcome", "1 for the outcome of the case", *_LABELS, "outcome")
    present = dict.fromkeys(figure for verdict in verdicts for figure in document_figures(verdict))
    figures = {figure: gauge(*_name_and_text(figure), *_LABELS) for figure in present}
    for verdict in verdicts:
        labels = [verdict.spec.id, *(_text(label(verdict)) for label in IDENTITY.values())]
        failed.labels(*labels).set(verdict.failed)
        has_wrong_value.labels(*labels).set(verdict.has_wrong_result)
        outcome_of.labels(*labels, verdict.outcome.value).set(1)
        for figure, value in document_figures(verdict).items():
            if value is not None:
                figures[figure].labels(*labels).set(value)
    return generate_latest(registry).decode("utf-8")


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _name_and_text(figure: Figure) -> tuple[str, str]:
    """Return the name of a metric, which ends in its whole unit, and its help text."""
    name = re.sub("_per_s$", "_per_second", figure.metric or figure.id)
    return f"case_{re.sub('_s$', '_seconds', name)}", f"the figure {figure.id} of the results"
