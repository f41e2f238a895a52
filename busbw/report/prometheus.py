"""A session in the text format of Prometheus: outcomes, and every figure of every case.

https://prometheus.io/docs/instrumenting/exposition_formats: seconds, bytes, and a name for each
figure that ends in its unit.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from datetime import datetime

from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome

from .figures import IDENTITY, Figure, kept

_MISSING = "metrics need busbw[metrics]: python -m pip install 'busbw[metrics]'"
_PREFIX = "busbw"
_FIRST = f"# HELP {_PREFIX}_session_failed "
_LABELS = ("case", *IDENTITY)


def metrics(verdicts: Sequence[Verdict], session: SessionVerdict, began: datetime) -> str:
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels, registry=registry)

    gauge("session_failed", "1 unless the session is FINE").set(session.failed)
    outcomes = gauge("session_outcome", "1 for what holds of the session", "outcome")
    for one in session.outcomes:
        outcomes.labels(one.value).set(1)
    gauge("session_began_timestamp_seconds", "when it began").set(began.timestamp())
    cases = gauge("cases", "how many cases have an outcome", "outcome")
    for outcome in Outcome:
        cases.labels(outcome.value).set(sum(one.outcome is outcome for one in verdicts))
    failed = gauge("case_failed", "1 for a case that failed", *_LABELS)
    wrong = gauge("case_wrong", "1 for a case with a wrong value", *_LABELS)
    outcome_of = gauge("case_outcome", "1 for the outcome of the case", *_LABELS, "outcome")
    there = dict.fromkeys(one for verdict in verdicts for one in kept(verdict))
    figures = {one: gauge(*_named(one), *_LABELS) for one in there}
    for verdict in verdicts:
        labels = [verdict.spec.id, *(_text(of(verdict)) for of in IDENTITY.values())]
        failed.labels(*labels).set(verdict.failed)
        wrong.labels(*labels).set(verdict.is_wrong)
        outcome_of.labels(*labels, verdict.outcome.value).set(1)
        for figure, value in kept(verdict).items():
            if value is not None:
                figures[figure].labels(*labels).set(value)
    return generate_latest(registry).decode("utf-8")


def is_metrics(text: str) -> bool:
    return text.startswith(_FIRST)


def missing_for_metrics() -> str:
    return "" if importlib.util.find_spec("prometheus_client") else _MISSING


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _named(figure: Figure) -> tuple[str, str]:
    """Its name with the unit in whole, and a sentence."""
    name = re.sub("_per_s$", "_per_second", figure.metric or figure.id)
    return f"case_{re.sub('_s$', '_seconds', name)}", f"the figure {figure.id} of the results"
