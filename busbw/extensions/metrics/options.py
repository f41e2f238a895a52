"""The option --metrics, which writes metrics at the end of a session."""

from __future__ import annotations

from busbw.session.option import Option, parse_text

METRICS = Option(
    name="metrics",
    arguments={
        "type": parse_text,
        "metavar": "FILE",
        "help": "Write outcomes and figures to FILE in the text format of Prometheus. Needs "
        "busbw[metrics]",
    },
)
