"""What extensions notice besides times, merged with the verdicts of cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.model.verdict import Verdict
from busbw.model.words import Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What is noticed at a case: notes and values, which change nothing, a doubt, or a failure.

    A `doubt` says what else may have made the case slower: REGRESSED becomes NOISY. A `failure`
    says why the case is CHANGED. `extra` has values of the extension by their names, for columns.
    """

    notes: tuple[str, ...] = ()
    doubt: str = ""
    failure: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


def merge_findings(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict with all findings, whose order changes only the order of texts.

    A failure goes before a doubt, and a doubt before the verdict of the rule. The failure of a case
    that fails anyway becomes a note.
    """
    doubts = [finding.doubt for finding in findings if finding.doubt]
    failures = [finding.failure for finding in findings if finding.failure]
    notes = [*verdict.notes, *(note for finding in findings for note in finding.notes)]
    if doubts and verdict.outcome is Outcome.REGRESSED:
        text = "; ".join((verdict.text, *doubts))
        verdict = replace(verdict, outcome=Outcome.NOISY, failed=False, text=text)
    if failures and verdict.failed:
        notes += failures
    elif failures:
        verdict = replace(verdict, outcome=Outcome.CHANGED, failed=True, text="; ".join(failures))
        notes = [note for note in notes if note not in failures]
    extra = {name: value for finding in findings for name, value in finding.extra.items()}
    return replace(verdict, notes=tuple(dict.fromkeys(notes)), extra={**verdict.extra, **extra})
