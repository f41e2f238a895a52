"""The verdicts of a soak: a wrong element, or how rare wrong elements can be at most."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from busbw.model.case import Case, Spec
from busbw.model.launch import Failure
from busbw.model.soak import Tally, Wrong
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, plural

from .validity import memory_verdict

_CONFIDENCE = 0.95
# More bits than these are counted.
_MOST_BITS = 8

_FOLLOWS = {
    "": "with the ranks on other devices it did not come again",
    "device": "with the ranks moved on by one device it stays with the device",
    "rank": "with the ranks moved on by one device it stays with the rank",
    "neither": "with the ranks moved on by one device it is at another rank of another device",
}


def judge_soak(spec: Spec, case: Case, tally: Tally, hosts: Sequence[str] = ()) -> Verdict:
    """Judge one case of a soak; `hosts` has the name of each process's host, if there are hosts."""
    failure = tally.failure
    if tally.wrong is not None:
        host = hosts[tally.process] if hosts else ""
        message = f"{wrong_text(tally.wrong, host)}; {_FOLLOWS[tally.follows]}"
        kind = FailureKind.WRONG_RESULT
        failure = Failure(kind=kind, message=message, launch=tally.launch)
    if failure is not None and failure.kind is FailureKind.OUT_OF_MEMORY:
        verdict = memory_verdict(spec, failure, " (nothing was soaked)", failed=False)
    elif failure is not None and failure.kind is FailureKind.OTHER_DTYPE:
        verdict = Verdict(spec=spec, outcome=Outcome.SKIPPED, failed=False, text=failure.message)
    elif failure is not None:
        text = f"{failure.kind.words}: {failure.first_line}"
        outcome = Outcome.FAILED
        verdict = Verdict(spec=spec, outcome=outcome, failed=True, text=text, failure=failure)
    elif not tally.rounds:
        text = "there was no time for a round"
        verdict = Verdict(spec=spec, outcome=Outcome.SKIPPED, failed=False, text=text)
    else:
        text = f"{amount_text(tally)}, no difference: {rare_text(tally.rounds)}"
        verdict = Verdict(spec=spec, outcome=Outcome.PASS, failed=False, text=text)
    left_out = (f"not passed unchanged here, and left out: {kind}" for kind in tally.left_out)
    return replace(verdict, case=case, notes=(*verdict.notes, *left_out), soaked=tally)


def judge_soak_session(
    verdicts: Sequence[Verdict], tallies: Mapping[Case, Tally]
) -> SessionVerdict:
    """Return FAILED, PASS, or NO_VERDICT if a case has no round or nothing was compared."""
    whole = _sum_tallies(tallies.values())
    failed = sum(verdict.failed for verdict in verdicts)
    text = f"{plural(len(tallies), 'case')}, {amount_text(whole)}"
    if failed:
        outcome = SessionOutcome.FAILED
        text = f"{failed} of {plural(len(verdicts), 'case')} failed; {text}"
    elif missing := sum(map(_is_missing, tallies.values())):
        outcome = SessionOutcome.NO_VERDICT
        text = f"{plural(missing, 'case')} without a round; {text}"
    elif not whole.rounds:
        outcome = SessionOutcome.NO_VERDICT
        text = f"no result was compared: {plural(len(verdicts), 'case')} skipped"
    else:
        outcome = SessionOutcome.FINE
        text = f"{text}, no difference: {rare_text(whole.rounds)}"
    return SessionVerdict(outcomes=(outcome,), text=text)


def _is_missing(tally: Tally) -> bool:
    """Return whether a case lacks a round for another reason than a program of another dtype."""
    other = tally.failure is not None and tally.failure.kind is FailureKind.OTHER_DTYPE
    return not tally.rounds and not other


def soaking_text(tallies: Iterable[Tally], left_s: float) -> str:
    """Return a text such as ``busbw: soaking: 1,204 rounds, 5.1 GB compared, 34 s left``."""
    tallies = list(tallies)
    over = sum(tally.is_over for tally in tallies)
    amount = amount_text(_sum_tallies(tallies)) + (f", {plural(over, 'case')} over" if over else "")
    return f"busbw: soaking: {amount}, {max(0.0, left_s):.0f} s left"


def _sum_tallies(tallies: Collection[Tally]) -> Tally:
    return Tally(
        rounds=sum(tally.rounds for tally in tallies),
        compared_bytes=sum(tally.compared_bytes for tally in tallies),
    )


def amount_text(tally: Tally) -> str:
    """Return a text such as ``3.1e+05 rounds, 41 TB compared``; TB is 10^12 bytes."""
    rounds = f"{tally.rounds:,}" if tally.rounds < 10**5 else f"{tally.rounds:.2g}"
    size, unit = next(
        (tally.compared_bytes / size, unit)
        for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))
        if tally.compared_bytes >= size or size == 1
    )
    return f"{rounds} round{'' if tally.rounds == 1 else 's'}, {size:.3g} {unit} compared"


def rare_text(rounds: int) -> str:
    """Return how rare wrong rounds are at most, after `rounds` that were all right.

    It is the upper end of the exact interval of Clopper and Pearson (1934) without an event: if a
    share p of rounds were wrong, one would have been seen with the probability 1 - (1 - p)^rounds.
    Rounds are assumed to be independent.
    """
    share = -math.expm1(math.log1p(-_CONFIDENCE) / rounds)
    return f"fewer than 1 in {1 / share:.2g} rounds with {100 * _CONFIDENCE:.0f} % confidence"


def wrong_text(mismatch: Wrong, host: str) -> str:
    """Return which rank has a wrong element, where it is, its bits, and how often it came again."""
    bits, where = mismatch.bits, f" ({host})" if host else ""
    which = f"{len(bits)} bits"
    if len(bits) <= _MOST_BITS:
        which = f"bit{'s' * (len(bits) > 1)} {', '.join(map(str, bits))}"
    elements, last = mismatch.elements, mismatch.last
    many = "" if elements == 1 else f", the first of {elements} up to {last}"
    return (
        f"rank {mismatch.rank}{where}, element {mismatch.element}{many}, {mismatch.values}, round "
        f"{mismatch.number}: {mismatch.found:#x}, expected {mismatch.expected:#x} ({which}); with "
        f"the same input wrong again in {mismatch.again} of {mismatch.asked} rounds"
    )
