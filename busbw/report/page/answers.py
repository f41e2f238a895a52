"""What pages of every kind of session say: the answer, the cases that failed, and why."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from busbw.model import CompiledVerdict, SessionVerdict, Verdict, plural

from ..answer import answer_lines, failure_lines
from ..table import span_text
from .content import Answer, Log, Part, Points

_NO_VERDICT = "NO_VERDICT"
_MOST_REASONS = 12


def answers(found: SessionVerdict | None) -> list[Part]:
    """The session's, then those for the stack and for the machine where a reference tells."""
    if found is None:
        return [Answer(word=_NO_VERDICT, text="the session's own test did not run", is_good=False)]
    word = ", ".join(one.value for one in found.outcomes)
    parts: list[Part] = [Answer(word=word, text=found.text, is_good=not found.failed)]
    for name, one in (("The stack", found.stack), ("The machine", found.machine)):
        if one is not None:
            word = {True: "is slower.", False: "is not slower.", None: "is unknown."}[one.is_slower]
            good = one.is_slower is False
            parts.append(Answer(word=f"{name} {word}", text=one.text, is_good=good))
    return parts


def failed_cases(
    verdicts: Sequence[Verdict | CompiledVerdict], found: SessionVerdict | None
) -> Iterator[Part]:
    failed = sum(one.failed for one in verdicts)
    if failed and found is not None:
        *lines, _ = answer_lines(verdicts, found)
        yield Points(
            title=f"{failed} of {plural(len(verdicts), 'case')} failed:",
            points=tuple(one.text for one in lines),
        )


def alike(verdicts: Sequence[Verdict | CompiledVerdict]) -> Iterator[str]:
    """Each reason once, with what it is about: such as ``jax all_reduce (psum) 1K to 4K: ...``."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for one in verdicts:
        asked = one.spec.spec if isinstance(one, CompiledVerdict) else one.spec
        name = one.case.group_name if one.case is not None else asked.framework
        name = f"{one.spec.topology}: {name}" if isinstance(one, CompiledVerdict) else name
        reasons.setdefault((name, one.text), []).append(asked.payload_bytes)
    shown = list(reasons.items())[:_MOST_REASONS]
    for (name, text), sizes in shown:
        yield f"{name} {span_text(sizes)}: {text}"
    if len(reasons) > len(shown):
        yield f"and {len(reasons) - len(shown)} more: see the tables of cases"


def logs(verdicts: Sequence[Verdict | CompiledVerdict]) -> Iterator[Part]:
    accounts = itertools.groupby(failure_lines(verdicts), key=lambda line: not line)
    for title, *lines in (list(group) for is_break, group in accounts if not is_break):
        yield Log(title=title.removesuffix(":"), lines=tuple(lines))
