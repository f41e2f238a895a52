"""The option --page, which writes a page at the end of a session."""

from __future__ import annotations

from busbw.session.option import Option, parse_text

PAGE = Option(
    name="page",
    arguments={
        "type": parse_text,
        "metavar": "FILE",
        "help": "Write an HTML page with tables and charts of the session, and of its history if "
        "it has one, to FILE. Needs busbw[page]",
    },
)
