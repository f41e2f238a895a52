"""What a compiler made of a case, compared with what it made of it before. Nothing is timed.

A compiler gives the same program every time: one answer is enough, and every difference counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import Case, Spec
from busbw.model.launch import Compiled, Failure
from busbw.model.stored import CompiledBaseline
from busbw.model.verdict import Difference, Program, SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, bytes_text, plural

from .policy import LEAST_MEMORY_GROWTH_BYTES, MEMORY_GROWTH
from .programs import collectives_changed
from .session import session_verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileTerms:
    """What the user asked for.

    With `accept_changes` another algorithm is no failure; with `accept_all` nothing that can be
    stored is one, because it will be stored; with `accept_new` a missing baseline is none. `before`
    names the other side.
    """

    require_baselines: bool = False
    accept_changes: bool = False
    accept_all: bool = False
    accept_new: bool = False
    before: str = "the baseline"


def judge_compiled(
    spec: Spec,
    case: Case,
    now: Compiled | Failure,
    baseline: CompiledBaseline | None,
    terms: CompileTerms,
    *,
    release: str = "",
) -> Verdict:
    """Judge one case; `release` is the release of the compiler that produced `now`."""
    verdict = (
        _failure(spec, now, baseline, terms)
        if isinstance(now, Failure)
        else _program(spec, now, baseline, terms, case)
    )
    program = replace(verdict.program or Program(), release=release, baseline=baseline)
    return replace(verdict, case=case, program=program)


def _failure(
    spec: Spec, failure: Failure, baseline: CompiledBaseline | None, terms: CompileTerms
) -> Verdict:
    if failure.kind is FailureKind.OUT_OF_MEMORY:
        return _out_of_memory(spec, failure, baseline, terms)
    if failure.kind is FailureKind.COMPILE_ERROR:
        outcome, text = Outcome.COMPILE_ERROR, failure.message.splitlines()[0]
    else:
        outcome = Outcome.FAILED
        text = f"{failure.kind.words}: {failure.first_line}"
    return Verdict(spec=spec, outcome=outcome, failed=True, text=text, failure=failure)


def _out_of_memory(
    spec: Spec, failure: Failure, baseline: CompiledBaseline | None, terms: CompileTerms
) -> Verdict:
    needed, available = failure.needed_bytes, failure.available_bytes
    if needed is None or available is None:
        text = failure.message.splitlines()[0]
    else:
        text = f"needs {bytes_text(needed, 2)}, {bytes_text(available, 2)} available"
    if baseline is None:
        failed, expected = terms.require_baselines and not terms.accept_new, terms.accept_new
        text += "; no baseline"
    elif baseline.compiled is None:
        failed, expected = False, True
        text += f"; expected, as in {terms.before}"
    else:
        failed, expected = not terms.accept_all, terms.accept_all
        text += f"; it compiled in {terms.before} ({baseline.release})"
    return Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=failed,
        expected=expected,
        text=text,
        failure=failure,
    )


def _program(
    spec: Spec,
    now: Compiled,
    baseline: CompiledBaseline | None,
    terms: CompileTerms,
    case: Case,
) -> Verdict:
    def verdict(
        outcome: Outcome, text: str, *, failed: bool = False, found: Sequence[Difference] = ()
    ) -> Verdict:
        program = Program(now=now, differences=tuple(found))
        return Verdict(spec=spec, outcome=outcome, failed=failed, text=text, program=program)

    if baseline is None:
        return verdict(
            Outcome.NO_BASELINE,
            f"{now.algorithm_text}; nothing to compare with",
            failed=terms.require_baselines and not terms.accept_new,
        )
    if baseline.case.protocol != case.protocol:
        return verdict(
            Outcome.INCOMPARABLE,
            f"another program: {baseline.case.protocol} in {terms.before}, {case.protocol} now",
            failed=terms.require_baselines and not terms.accept_all,
        )
    if baseline.compiled is None:
        return verdict(Outcome.IMPROVED, f"it fits now; out of memory in {terms.before}")
    found = [_accepted(one, terms) for one in differences(baseline.compiled, now)]
    if not found:
        return verdict(Outcome.PASS, f"compiles as in {terms.before}: {now.algorithm_text}")
    return verdict(
        Outcome.CHANGED,
        "; ".join(one.text for one in found),
        failed=any(one.fails for one in found),
        found=found,
    )


def _accepted(one: Difference, terms: CompileTerms) -> Difference:
    takes = terms.accept_all or (terms.accept_changes and one.what not in _MEMORY)
    return replace(one, fails=False, accepted=True) if one.fails and takes else one


_MEMORY = ("temporary memory", "peak memory")


# What is said of a program in words, of which every other word is a difference.
_SAID: Mapping[str, Callable[[Compiled], str]] = {
    "collectives": lambda one: _counted(one.collectives),
    "groups": lambda one: one.groups,
    "started apart": lambda one: "yes" if one.starts else "no",
    "in each turn of the loop beside it": lambda one: _counted(one.around),
    "once in a call": lambda one: _counted(one.around_loop),
}


def differences(before: Compiled, now: Compiled) -> tuple[Difference, ...]:
    """Everything that changed, the algorithm first. Memory that shrank is no failure."""
    if before.uses or now.uses:
        return (*collectives_changed(before.uses, now.uses), *_memory(before, now))
    if bool(before.algorithm) is bool(now.algorithm):
        names = sorted({*before.algorithm, *now.algorithm})
        said = [(one, *(side.algorithm.get(one, "") for side in (before, now))) for one in names]
    else:
        sides = ["published" if side.algorithm else "not published" for side in (before, now)]
        said = [("algorithm", *sides)]
    said += [(what, text(before), text(now)) for what, text in _SAID.items()]
    return (
        *(Difference(what=w, before=a, now=b, fails=True) for w, a, b in said if a != b),
        *_memory(before, now),
    )


def _memory(before: Compiled, now: Compiled) -> Iterator[Difference]:
    yield from _bytes(_MEMORY[0], before.temporary_bytes, now.temporary_bytes)
    yield from _bytes(_MEMORY[1], before.peak_bytes, now.peak_bytes)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _bytes(what: str, before: int, now: int) -> Iterator[Difference]:
    if before == now:
        return
    most = before + max(MEMORY_GROWTH * before, LEAST_MEMORY_GROWTH_BYTES)
    texts = bytes_text(before), bytes_text(now)
    if texts[0] == texts[1]:
        texts = f"{before} bytes", f"{now} bytes"
    yield Difference(what=what, before=texts[0], now=texts[1], fails=now > most)


def judge_compiled_session(
    verdicts: Sequence[Verdict], *, asked_to_skip: str = "", missing: Sequence[str] = ()
) -> SessionVerdict:
    """Return FINE, or NOTHING_COMPARED, if everything that was requested was compiled.

    The results are the verdicts of the cases. There is no verdict if nothing was compiled, or if a
    baseline was compared with nothing: `missing` are the topologies that have baselines and no
    compiler, each with the reason.
    """
    reasons = []
    if asked_to_skip:
        reasons.append(f"asked not to run ({asked_to_skip})")
    expected = (one.expected and one.outcome is Outcome.OUT_OF_MEMORY for one in verdicts)
    if not any(expected) and not any(one.program and one.program.now for one in verdicts):
        reasons.append("nothing was compiled")
    if missing:
        text = f"topologies that have a baseline were not compiled: {'; '.join(missing)}"
        reasons.append(text)
    found = {SessionOutcome.NO_VERDICT: "; ".join(reasons)}
    return session_verdict(found, verdicts, otherwise=_compiled(verdicts))


def _compiled(verdicts: Sequence[Verdict]) -> str:
    tried = [one for one in verdicts if one.outcome is not Outcome.SKIPPED]
    topologies = len({one.spec.topology for one in tried})
    where = f"{topologies} {'topology' if topologies == 1 else 'topologies'}"
    releases = {one.program.release for one in tried if one.program}
    by = ", ".join(sorted(filter(None, releases)))
    skipped = len(verdicts) - len(tried)
    more = f"; {plural(skipped, 'case')} skipped" if skipped else ""
    return f"{plural(len(tried), 'case')} for {where} compiled by {by}{more}"
