"""`python -m busbw estimate` for tests: an answer's rows, and refusals. No test lives here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .asked import Answer, asked_here


def estimate(*arguments: str | Path) -> Answer:
    """In this process, since most of these tests are many questions."""
    return asked_here("estimate", *arguments)


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    """The estimates, best first, of a question that is answered."""
    answer = estimate(*arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    found: list[dict[str, Any]] = answer.document["estimates"]
    return found


def refused(says: str, *arguments: str) -> None:
    """Nothing is printed but a sentence with `says`, and the exit code is that of usage."""
    answer = estimate(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.errors[-1]
