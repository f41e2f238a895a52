"""The words and tables of one session, which a summary writes as Markdown and a page as HTML."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, SessionOutcome, plural

from .answer import answer_lines, failure_logs
from .reading import Outline, SessionRecord, Statement, Text
from .table import span_text
from .verdicts import legend

_MOST_REASONS = 12
_NOTHING_BEFORE = "There was nothing to compare with: no case has a baseline."
_REPORTED = {
    Outcome.CHANGED: "changed, which is no failure",
    Outcome.IMPROVED: "got faster",
    Outcome.OUT_OF_MEMORY: "ran out of memory as the baseline says",
    Outcome.NOISY: "too noisy to judge",
    Outcome.SKIPPED: "left out",
}


def outline(session: SessionRecord, since: Sequence[str] = ()) -> Outline:
    """Describe a session; `since` says since when cases fail."""
    words = session.description()
    return replace(
        words,
        statements=tuple(_statements(session)),
        facts={name: text for name, text in words.facts.items() if text},
        changes=(*words.changes, *_changes(session, since, words.unchanged)),
        logs=failure_logs(session.verdicts),
        notes=legend(session.verdicts),
    )


def _statements(session: SessionRecord) -> Iterator[Statement]:
    """Yield the session's outcome, then those of the stack and of the machine if known."""
    answer = session.answer
    if answer is None:
        text = "the session's own test did not run"
        yield Statement(word="NO_VERDICT", text=text, is_good=False)
        return
    word = ", ".join(outcome.value for outcome in answer.outcomes)
    yield Statement(word=word, text=answer.text, is_good=answer.outcome is SessionOutcome.PASS)
    for name, part in (("The stack", answer.stack), ("The machine", answer.machine)):
        if part is not None:
            state = {True: "is slower.", False: "is not slower.", None: "is unknown."}
            word = f"{name} {state[part.is_slower]}"
            yield Statement(word=word, text=part.text, is_good=part.is_slower is False)


def _changes(session: SessionRecord, since: Sequence[str], unchanged: str) -> Iterator[Text]:
    """Yield what failed, since when, and what else is not as before."""
    verdicts = session.verdicts
    failed = sum(verdict.failed for verdict in verdicts)
    if failed and session.answer is not None:
        *lines, _ = answer_lines(verdicts, session.answer)
        yield f"{failed} of {plural(len(verdicts), 'case')} failed:", [line.text for line in lines]
    if since:
        yield "Since when:", since
    is_quiet = not failed
    for outcome, words in _REPORTED.items():
        cases = [
            verdict for verdict in verdicts if verdict.outcome is outcome and not verdict.failed
        ]
        is_quiet &= not cases or outcome is Outcome.SKIPPED
        if cases:
            yield f"{plural(len(cases), 'case')} {words}:", list(_reasons(cases))
    if is_quiet:
        yield unchanged or _NOTHING_BEFORE, ()


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield each reason once, with its cases: such as ``jax all_reduce (psum) 1K to 4K: ...``."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for verdict in verdicts:
        sizes = reasons.setdefault((verdict.group_name, verdict.text), [])
        sizes += [verdict.spec.payload_bytes] if verdict.spec.is_sized else []
    for (name, text), sizes in itertools.islice(reasons.items(), _MOST_REASONS):
        # A program's name is that of its group, and it has no size.
        yield f"{name} {span_text(sizes)}: {text}" if sizes else f"{name}: {text}"
    if len(reasons) > _MOST_REASONS:
        yield f"and {len(reasons) - _MOST_REASONS} more: see the tables of cases"
