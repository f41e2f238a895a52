"""What a soak found of one case, and of all: a wrong word, or how rare one can be at most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from busbw.model.case import Case, Spec
from busbw.model.launch import Failure
from busbw.model.soak import Tally, Wrong
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, plural

from .validity import memory_verdict

# With this confidence; and how many bits are named.
_SURE, _MOST_BITS = 0.95, 8

_FOLLOWS = {
    "": "with the ranks on other devices it did not come again",
    "device": "with the ranks moved on by one device it stays with the device",
    "rank": "with the ranks moved on by one device it stays with the rank",
    "neither": "with the ranks moved on by one device it is at another rank of another device",
}


def judge_soak(spec: Spec, case: Case, tally: Tally, hosts: Sequence[str] = ()) -> Verdict:
    """`hosts` has the name of each process's host."""
    failure = tally.failure
    if tally.wrong is not None:
        host = hosts[tally.process] if hosts else ""
        message = f"{wrong_text(tally.wrong, host)}; {_FOLLOWS[tally.follows]}"
        kind = FailureKind.WRONG_RESULT
        failure = Failure(kind=kind, message=message, launch=tally.launch)
    if failure is not None and failure.kind is FailureKind.OUT_OF_MEMORY:
        found = memory_verdict(spec, failure, " (nothing was soaked)", failed=False)
    elif failure is not None and failure.kind is FailureKind.OTHER_DTYPE:
        found = Verdict(spec=spec, outcome=Outcome.SKIPPED, failed=False, text=failure.message)
    elif failure is not None:
        text = f"{failure.kind.words}: {failure.first_line}"
        found = Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=text, failure=failure)
    elif not tally.rounds:
        text = "there was no time for a round"
        found = Verdict(spec=spec, outcome=Outcome.SKIPPED, failed=False, text=text)
    else:
        text = f"{amount_text(tally)}, no difference: {rare_text(tally.rounds)}"
        found = Verdict(spec=spec, outcome=Outcome.PASS, failed=False, text=text)
    left_out = (f"not passed unchanged here, and left out: {kind}" for kind in tally.left_out)
    return replace(found, case=case, notes=(*found.notes, *left_out), soaked=tally)


def judge_soaked(verdicts: Sequence[Verdict], tallies: Mapping[Case, Tally]) -> SessionVerdict:
    whole = _whole(tallies.values())
    failed = sum(one.failed for one in verdicts)
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
    """Such as ``busbw: soaking: 1,204 rounds, 5.1 GB compared, 34 s left``."""
    found = list(tallies)
    over = sum(one.is_over for one in found)
    failed = f", {plural(over, 'case')} over" if over else ""
    return f"busbw: soaking: {amount_text(_whole(found))}{failed}, {max(0.0, left_s):.0f} s left"


def _whole(tallies: Iterable[Tally]) -> Tally:
    found = list(tallies)
    return Tally(
        rounds=sum(one.rounds for one in found),
        compared_bytes=sum(one.compared_bytes for one in found),
    )


def amount_text(tally: Tally) -> str:
    """Such as ``3.1e+05 rounds, 41 TB``; TB is 10^12 bytes."""
    rounds = f"{tally.rounds:,}" if tally.rounds < 10**5 else f"{tally.rounds:.2g}"
    size, unit = next(
        (tally.compared_bytes / size, unit)
        for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))
        if tally.compared_bytes >= size or size == 1
    )
    return f"{rounds} round{'' if tally.rounds == 1 else 's'}, {size:.3g} {unit} compared"


def rare_text(rounds: int) -> str:
    """Of rounds that were right: a share p would have shown with a chance of 1 - (1 - p)^rounds.

    The upper end of the exact interval of Clopper and Pearson (1934) where nothing was seen.
    """
    share = -math.expm1(math.log1p(-_SURE) / rounds)
    return f"fewer than 1 in {1 / share:.2g} rounds with {100 * _SURE:.0f} % confidence"


def wrong_text(wrong: Wrong, host: str) -> str:
    """Which rank, where, what, and how often."""
    on = f" ({host})" if host else ""
    bits = wrong.bits
    which = f"{len(bits)} bits"
    if len(bits) <= _MOST_BITS:
        which = f"bit{'s' * (len(bits) > 1)} {', '.join(map(str, bits))}"
    many = "" if wrong.elements == 1 else f", the first of {wrong.elements} up to {wrong.last}"
    return (
        f"rank {wrong.rank}{on}, element {wrong.element}{many}, {wrong.values}, round "
        f"{wrong.number}: {wrong.found:#x}, expected {wrong.expected:#x} ({which}); with the "
        f"same input wrong again in {wrong.again} of {wrong.asked} rounds"
    )
