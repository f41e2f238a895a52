"""What a compiler made of a case, compared with what it made of it before. Nothing is timed.

A compiler gives the same program every time: one answer is enough, and every difference counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.extensions.program.changes import collectives_changed
from busbw.extensions.program.worker_values import Difference
from busbw.judge.session import build_session_verdict
from busbw.model.case import Case
from busbw.model.launch import Failure
from busbw.model.verdict import SessionVerdict
from busbw.model.words import MIB, FailureKind, Outcome, SessionOutcome, bytes_text, plural

from .worker_values import (
    Compiled,
    CompiledBaseline,
    CompiledSpec,
    CompiledVerdict,
    Program,
)

# Memory of one rank that was compiled may grow by this fraction, or by this number of bytes, the
# larger of both: a compiler's scratch space changes by some KiB from release to release, and a
# hundredth of a chip's memory decides about no payload in steps of two.
MEMORY_GROWTH = 0.01
LEAST_MEMORY_GROWTH_BYTES = MIB


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
    spec: CompiledSpec,
    case: Case,
    now: Compiled | Failure,
    baseline: CompiledBaseline | None,
    terms: CompileTerms,
    *,
    release: str = "",
) -> CompiledVerdict:
    """Judge one case; `release` is the release of the compiler that produced `now`."""
    verdict = (
        _failure(spec, now, baseline, terms)
        if isinstance(now, Failure)
        else _program(spec, now, baseline, terms, case)
    )
    program = replace(verdict.program, release=release, baseline=baseline)
    return replace(verdict, case=case, program=program)


def _failure(
    spec: CompiledSpec, failure: Failure, baseline: CompiledBaseline | None, terms: CompileTerms
) -> CompiledVerdict:
    if failure.kind is FailureKind.OUT_OF_MEMORY:
        return _out_of_memory(spec, failure, baseline, terms)
    if failure.kind is FailureKind.COMPILE_ERROR:
        outcome, text = Outcome.COMPILE_ERROR, failure.message.splitlines()[0]
    else:
        outcome = Outcome.FAILED
        text = f"{failure.kind.text}: {failure.first_line}"
    return CompiledVerdict(spec=spec, outcome=outcome, failed=True, text=text, failure=failure)


def _out_of_memory(
    spec: CompiledSpec, failure: Failure, baseline: CompiledBaseline | None, terms: CompileTerms
) -> CompiledVerdict:
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
    return CompiledVerdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=failed,
        expected=expected,
        text=text,
        failure=failure,
    )


def _program(
    spec: CompiledSpec,
    now: Compiled,
    baseline: CompiledBaseline | None,
    terms: CompileTerms,
    case: Case,
) -> CompiledVerdict:
    def verdict(
        outcome: Outcome, text: str, *, failed: bool = False, differences: Sequence[Difference] = ()
    ) -> CompiledVerdict:
        program = Program(now=now, differences=tuple(differences))
        return CompiledVerdict(
            spec=spec, outcome=outcome, failed=failed, text=text, program=program
        )

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
    changes = [_accepted(change, terms) for change in differences(baseline.compiled, now)]
    if not changes:
        return verdict(Outcome.PASS, f"compiles as in {terms.before}: {now.algorithm_text}")
    return verdict(
        Outcome.CHANGED,
        "; ".join(change.text for change in changes),
        failed=any(change.fails for change in changes),
        differences=changes,
    )


def _accepted(change: Difference, terms: CompileTerms) -> Difference:
    is_accepted = terms.accept_all or (terms.accept_changes and change.name not in _MEMORY)
    return replace(change, fails=change.fails and not is_accepted)


_MEMORY = ("temporary memory", "peak memory")


# The properties of a program in words; another word is a difference.
_PROPERTIES: Mapping[str, Callable[[Compiled], str]] = {
    "collectives": lambda program: _counted(program.collectives),
    "groups": lambda program: program.groups,
    "started apart": lambda program: "yes" if program.starts else "no",
    "in each turn of the loop beside it": lambda program: _counted(program.around),
    "once in a call": lambda program: _counted(program.around_loop),
}


def differences(before: Compiled, now: Compiled) -> tuple[Difference, ...]:
    """Return all changes, the algorithm first. Memory that shrank is no failure."""
    if before.uses or now.uses:
        return (*collectives_changed(before.uses, now.uses), *_memory(before, now))
    if bool(before.algorithm) is bool(now.algorithm):
        names = sorted({*before.algorithm, *now.algorithm})
        texts = [
            (name, *(side.algorithm.get(name, "") for side in (before, now))) for name in names
        ]
    else:
        sides = ["published" if side.algorithm else "not published" for side in (before, now)]
        texts = [("algorithm", *sides)]
    texts += [(name, text(before), text(now)) for name, text in _PROPERTIES.items()]
    return (
        *(Difference(name=w, before=a, now=b, fails=True) for w, a, b in texts if a != b),
        *_memory(before, now),
    )


def _memory(before: Compiled, now: Compiled) -> Iterator[Difference]:
    yield from _bytes(_MEMORY[0], before.temporary_bytes, now.temporary_bytes)
    yield from _bytes(_MEMORY[1], before.peak_bytes, now.peak_bytes)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _bytes(name: str, before: int, now: int) -> Iterator[Difference]:
    if before == now:
        return
    most = before + max(MEMORY_GROWTH * before, LEAST_MEMORY_GROWTH_BYTES)
    texts = bytes_text(before), bytes_text(now)
    if texts[0] == texts[1]:
        texts = f"{before} bytes", f"{now} bytes"
    yield Difference(name=name, before=texts[0], now=texts[1], fails=now > most)


def judge_compiled_session(
    verdicts: Sequence[CompiledVerdict], *, asked_to_skip: str = "", missing: Sequence[str] = ()
) -> SessionVerdict:
    """Return PASS, or NOTHING_COMPARED, if everything that was requested was compiled.

    The results are the verdicts of the cases. There is no verdict if nothing was compiled, or if a
    baseline was compared with nothing: `missing` are the topologies that have baselines and no
    compiler, each with the reason.
    """
    reasons = []
    if asked_to_skip:
        reasons.append(f"asked not to run ({asked_to_skip})")
    expected = (
        verdict.expected and verdict.outcome is Outcome.OUT_OF_MEMORY for verdict in verdicts
    )
    if not any(expected) and not any(verdict.program.now for verdict in verdicts):
        reasons.append("nothing was compiled")
    if missing:
        text = f"topologies that have a baseline were not compiled: {'; '.join(missing)}"
        reasons.append(text)
    sentences = {SessionOutcome.NO_VERDICT: "; ".join(reasons)}
    # Each compiler but the first is compared with the compiler before it.
    is_compared = len({verdict.spec.compiler for verdict in verdicts}) > 1
    otherwise = _compiled(verdicts)
    return build_session_verdict(
        sentences, verdicts, otherwise_text=otherwise, is_compared=is_compared
    )


def _compiled(verdicts: Sequence[CompiledVerdict]) -> str:
    tried = [verdict for verdict in verdicts if verdict.outcome is not Outcome.SKIPPED]
    topologies = len({verdict.spec.topology for verdict in tried})
    where = f"{topologies} {'topology' if topologies == 1 else 'topologies'}"
    releases = {verdict.program.release for verdict in tried}
    by = ", ".join(sorted(filter(None, releases)))
    skipped = len(verdicts) - len(tried)
    more = f"; {plural(skipped, 'case')} skipped" if skipped else ""
    return f"{plural(len(tried), 'case')} for {where} compiled by {by}{more}"
