"""Compare the program that a compiler made for a case with an earlier program. Nothing is timed.

A compiler makes the same program every time, so that a single result is enough, and every
difference is real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.extensions.program.changes import collective_differences
from busbw.extensions.program.worker_values import Difference
from busbw.judge.session import build_session_verdict
from busbw.model.case import Case
from busbw.model.launch import Failure
from busbw.model.verdict import SessionVerdict
from busbw.model.words import MIB, FailureKind, Outcome, SessionOutcome, bytes_text, plural

from .worker_values import (
    CompiledBaseline,
    CompiledComparison,
    CompiledProgram,
    CompiledVerdict,
    CompileSpec,
)

# The memory of a compiled program may grow by this fraction, or by this number of bytes if that is
# more. A compiler's scratch space changes by some KiB from release to release. And if each payload
# is twice the payload before it, a hundredth of a chip's memory hardly changes which payloads fit.
MEMORY_GROWTH = 0.01
LEAST_MEMORY_GROWTH_BYTES = MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileJudgingSettings:
    """The options of the user on which verdicts about compiled programs depend.

    Attributes:
        requires_baselines: Whether a case without a comparable baseline fails.
        accepts_changes: Whether a changed algorithm is no failure.
        accepts_all: Whether all programs are going to be stored, so that no program fails.
        accepts_new: Whether programs without a baseline are going to be stored.
        reference_name: The name of the earlier program in messages.

    """

    requires_baselines: bool = False
    accepts_changes: bool = False
    accepts_all: bool = False
    accepts_new: bool = False
    reference_name: str = "the baseline"


def judge_compiled_case(
    spec: CompileSpec,
    case: Case,
    result: CompiledProgram | Failure,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
    *,
    release: str = "",
) -> CompiledVerdict:
    """Return the verdict on a case.

    Args:
        spec: The case as it was selected.
        case: The case on the devices of the topology.
        result: The compiled program, or the failure of the compiler.
        baseline: The earlier program; None if there is no such program.
        settings: How the user wants the program to be judged.
        release: The release of the compiler that produced `result`.

    """
    verdict = (
        _judge_failure(spec, result, baseline, settings)
        if isinstance(result, Failure)
        else _judge_program(spec, result, baseline, settings, case)
    )
    program = replace(verdict.program, release=release, baseline=baseline)
    return replace(verdict, case=case, program=program)


def _judge_failure(
    spec: CompileSpec,
    failure: Failure,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
) -> CompiledVerdict:
    if failure.kind is FailureKind.OUT_OF_MEMORY:
        return _judge_out_of_memory(spec, failure, baseline, settings)
    if failure.kind is FailureKind.COMPILE_ERROR:
        outcome, text = Outcome.COMPILE_ERROR, failure.message.splitlines()[0]
    else:
        outcome = Outcome.FAILED
        text = f"{failure.kind.text}: {failure.first_line}"
    return CompiledVerdict(spec=spec, outcome=outcome, failed=True, text=text, failure=failure)


def _judge_out_of_memory(
    spec: CompileSpec,
    failure: Failure,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
) -> CompiledVerdict:
    needed, available = failure.needed_bytes, failure.available_bytes
    if needed is None or available is None:
        text = failure.message.splitlines()[0]
    else:
        text = f"needs {bytes_text(needed, 2)}, {bytes_text(available, 2)} available"
    if baseline is None:
        failed, expected = (
            settings.requires_baselines and not settings.accepts_new,
            settings.accepts_new,
        )
        text += "; no baseline"
    elif baseline.compiled is None:
        failed, expected = False, True
        text += f"; expected, as in {settings.reference_name}"
    else:
        failed, expected = not settings.accepts_all, settings.accepts_all
        text += f"; it compiled in {settings.reference_name} ({baseline.release})"
    return CompiledVerdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=failed,
        expected=expected,
        text=text,
        failure=failure,
    )


def _judge_program(
    spec: CompileSpec,
    now: CompiledProgram,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
    case: Case,
) -> CompiledVerdict:
    def make_verdict(
        outcome: Outcome, text: str, *, failed: bool = False, differences: Sequence[Difference] = ()
    ) -> CompiledVerdict:
        program = CompiledComparison(now=now, differences=tuple(differences))
        return CompiledVerdict(
            spec=spec, outcome=outcome, failed=failed, text=text, program=program
        )

    if baseline is None:
        return make_verdict(
            Outcome.NO_BASELINE,
            f"{now.algorithm_text}; nothing to compare with",
            failed=settings.requires_baselines and not settings.accepts_new,
        )
    if baseline.case.protocol != case.protocol:
        return make_verdict(
            Outcome.INCOMPARABLE,
            f"another program: {baseline.case.protocol} in {settings.reference_name}, "
            f"{case.protocol} now",
            failed=settings.requires_baselines and not settings.accepts_all,
        )
    if baseline.compiled is None:
        return make_verdict(
            Outcome.IMPROVED, f"it fits now; out of memory in {settings.reference_name}"
        )
    changes = [
        _apply_acceptance(change, settings)
        for change in program_differences(baseline.compiled, now)
    ]
    if not changes:
        return make_verdict(
            Outcome.PASS, f"compiles as in {settings.reference_name}: {now.algorithm_text}"
        )
    return make_verdict(
        Outcome.CHANGED,
        "; ".join(change.text for change in changes),
        failed=any(change.fails for change in changes),
        differences=changes,
    )


def _apply_acceptance(change: Difference, settings: CompileJudgingSettings) -> Difference:
    """Return `change`, which no longer fails the case if the user accepts such changes."""
    is_accepted = settings.accepts_all or (
        settings.accepts_changes and change.name not in _MEMORY_NAMES
    )
    return replace(change, fails=change.fails and not is_accepted)


_MEMORY_NAMES = ("temporary memory", "peak memory")


# The properties of a program that are compared as texts, by their names in messages.
_PROPERTIES: Mapping[str, Callable[[CompiledProgram], str]] = {
    "collectives": lambda program: _counts_text(program.collectives),
    "groups": lambda program: program.groups,
    "started apart": lambda program: "yes" if program.starts else "no",
    "in each turn of the loop beside it": lambda program: _counts_text(program.around),
    "once in a call": lambda program: _counts_text(program.around_loop),
}


def program_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> tuple[Difference, ...]:
    """Return all differences between two programs of a case: first the algorithm, last the memory.

    Less memory is a difference that does not fail the case.
    """
    if old_program.uses or new_program.uses:
        return (
            *collective_differences(old_program.uses, new_program.uses),
            *_memory_differences(old_program, new_program),
        )
    old, new = old_program.algorithm, new_program.algorithm
    if bool(old) is bool(new):
        names = sorted({*old, *new})
        texts = [(name, old.get(name, ""), new.get(name, "")) for name in names]
    else:
        published = {True: "published", False: "not published"}
        texts = [("algorithm", published[bool(old)], published[bool(new)])]
    texts += [(name, text(old_program), text(new_program)) for name, text in _PROPERTIES.items()]
    return (
        *(
            Difference(name=name, before=old_text, now=new_text, fails=True)
            for name, old_text, new_text in texts
            if old_text != new_text
        ),
        *_memory_differences(old_program, new_program),
    )


def _memory_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> Iterator[Difference]:
    yield from _bytes_difference(
        _MEMORY_NAMES[0], old_program.temporary_bytes, new_program.temporary_bytes
    )
    yield from _bytes_difference(_MEMORY_NAMES[1], old_program.peak_bytes, new_program.peak_bytes)


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _bytes_difference(name: str, old_bytes: int, new_bytes: int) -> Iterator[Difference]:
    """Yield the difference between two sizes of memory; nothing if they are equal."""
    if old_bytes == new_bytes:
        return
    most = old_bytes + max(MEMORY_GROWTH * old_bytes, LEAST_MEMORY_GROWTH_BYTES)
    texts = bytes_text(old_bytes), bytes_text(new_bytes)
    if texts[0] == texts[1]:
        texts = f"{old_bytes} bytes", f"{new_bytes} bytes"
    yield Difference(name=name, before=texts[0], now=texts[1], fails=new_bytes > most)


def judge_compiled_session(verdicts: Sequence[CompiledVerdict]) -> SessionVerdict:
    """Return the verdict on a session that compiled, from the verdicts on its cases.

    The outcome is NO_VERDICT if nothing was compiled.
    """
    # `expected` is set only for a case that runs out of memory.
    is_compiled = any(verdict.expected or verdict.program.now for verdict in verdicts)
    sentences = {SessionOutcome.NO_VERDICT: "" if is_compiled else "nothing was compiled"}
    # Each compiler but the first is compared with the compiler before it.
    is_compared = len({verdict.spec.compiler for verdict in verdicts}) > 1
    otherwise = _compiled_text(verdicts)
    return build_session_verdict(
        sentences, verdicts, default_text=otherwise, is_compared=is_compared
    )


def _compiled_text(verdicts: Sequence[CompiledVerdict]) -> str:
    tried = [verdict for verdict in verdicts if verdict.outcome is not Outcome.SKIPPED]
    topologies = len({verdict.spec.topology for verdict in tried})
    where = f"{topologies} {'topology' if topologies == 1 else 'topologies'}"
    releases = {verdict.program.release for verdict in tried}
    by = ", ".join(sorted(filter(None, releases)))
    skipped = len(verdicts) - len(tried)
    more = f"; {plural(skipped, 'case')} skipped" if skipped else ""
    return f"{plural(len(tried), 'case')} for {where} compiled by {by}{more}"
