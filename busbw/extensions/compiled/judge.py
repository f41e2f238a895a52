"""Compare the program that a compiler made for a case with an earlier program. Nothing is timed.

A compiler makes the same program every time, so that a single result is enough, and every
difference is real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.extensions.program.report import collective_differences
from busbw.extensions.program.worker_values import Difference
from busbw.judge.session import build_session_verdict
from busbw.model.case import Case
from busbw.model.launch import Failure
from busbw.model.verdict import SessionVerdict
from busbw.model.words import MIB, FailureKind, Outcome, SessionOutcome, bytes_text, plural

from .worker import (
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
    """The options of the user on which the verdict about a compiled program depends.

    Attributes:
        requires_baselines: Whether a case without a comparable baseline fails.
        accepts_changes: Whether a changed algorithm is no failure.
        will_be_stored: Whether the program is going to be stored, so that no difference fails.

    """

    requires_baselines: bool = False
    accepts_changes: bool = False
    will_be_stored: bool = False


def judge_compiled_case(
    spec: CompileSpec,
    case: Case,
    result: CompiledProgram | Failure,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
    *,
    release: str = "",
) -> CompiledVerdict:
    """Return the verdict on a case: whether its compiled program differs from an earlier program.

    Args:
        spec: The case as it was selected.
        case: The case on the devices of the topology.
        result: The compiled program, or the failure of the compiler.
        baseline: The earlier program of the case; None if no earlier program is known.
        settings: The options of the user that decide which differences fail.
        release: The release of the compiler that produced `result`.

    """
    verdict = CompiledVerdict(
        spec=spec,
        case=case,
        outcome=Outcome.PASS,
        failed=False,
        text="",
        program=CompiledComparison(release=release, baseline=baseline),
    )
    if isinstance(result, Failure):
        return _judge_failure(replace(verdict, failure=result), result, baseline, settings)
    program = replace(verdict.program, now=result)
    return _judge_program(replace(verdict, program=program), case, result, baseline, settings)


def _judge_failure(
    verdict: CompiledVerdict,
    failure: Failure,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
) -> CompiledVerdict:
    """Return `verdict`, completed for a case that the compiler did not compile.

    `failure` is the reason. Any kind but OUT_OF_MEMORY (the program needs more memory than the chip
    has) fails the case. OUT_OF_MEMORY fails the case if the program of `baseline` fitted, or if
    `settings` require a baseline and there is none, but never if the outcome will be stored.
    """
    text = failure.first_line
    if failure.kind is not FailureKind.OUT_OF_MEMORY:
        is_refused = failure.kind is FailureKind.COMPILE_ERROR
        return replace(
            verdict,
            outcome=Outcome.COMPILE_ERROR if is_refused else Outcome.FAILED,
            failed=True,
            text=text if is_refused else f"{failure.kind.text}: {text}",
        )
    if baseline is None:
        is_unexpected, reason = settings.requires_baselines, "no baseline"
    elif baseline.compiled is None:
        is_unexpected, reason = False, f"expected, as with {baseline.release}"
    else:
        is_unexpected, reason = True, f"it compiled with {baseline.release}"
    failed = is_unexpected and not settings.will_be_stored
    return replace(
        verdict,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=failed,
        expected=settings.will_be_stored or (baseline is not None and not failed),
        text=f"{text}; {reason}",
    )


def _judge_program(
    verdict: CompiledVerdict,
    case: Case,
    now: CompiledProgram,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
) -> CompiledVerdict:
    """Return `verdict`, completed by the comparison of the program `now` with `baseline`."""
    requires_baselines = settings.requires_baselines and not settings.will_be_stored
    if baseline is None:
        text = f"{now.algorithm_text}; nothing to compare with"
        return replace(verdict, outcome=Outcome.NO_BASELINE, failed=requires_baselines, text=text)
    if baseline.case.protocol != case.protocol:
        text = f"another program: {baseline.case.protocol} in the baseline, {case.protocol} now"
        return replace(verdict, outcome=Outcome.INCOMPARABLE, failed=requires_baselines, text=text)
    if baseline.compiled is None:
        text = f"it fits now; out of memory with {baseline.release}"
        return replace(verdict, outcome=Outcome.IMPROVED, text=text)
    # Memory decides which payloads fit, so that only stored programs may need more of it.
    differences = tuple(
        replace(
            change,
            fails=not settings.will_be_stored
            and (change.name in _MEMORY_FIELDS or not settings.accepts_changes),
        )
        for change in program_differences(baseline.compiled, now)
    )
    if not differences:
        return replace(verdict, text=f"compiles as with {baseline.release}: {now.algorithm_text}")
    return replace(
        verdict,
        outcome=Outcome.CHANGED,
        failed=any(change.fails for change in differences),
        text="; ".join(change.text for change in differences),
        program=replace(verdict.program, differences=differences),
    )


# The field of each size of memory, by its name in messages.
_MEMORY_FIELDS = {"temporary memory": "temporary_bytes", "peak memory": "peak_bytes"}


def program_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> tuple[Difference, ...]:
    """Return all differences between two programs of a case: first the algorithm, last the memory.

    More memory is a difference only above MEMORY_GROWTH and LEAST_MEMORY_GROWTH_BYTES. Less memory
    is no difference.
    """
    if old_program.uses or new_program.uses:
        differences = collective_differences(old_program.uses, new_program.uses)
    else:
        differences = tuple(_property_differences(old_program, new_program))
    return (*differences, *_memory_differences(old_program, new_program))


def _property_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> Iterator[Difference]:
    """Yield a Difference for each property, such as the algorithm, that is not equal in both.

    A property that only one program has counts as different. The needed memory is not compared.
    """
    old, new = _property_texts(old_program), _property_texts(new_program)
    for name in {**old, **new}:
        before, after = old.get(name, ""), new.get(name, "")
        if before != after:
            yield Difference(name=name, before=before, now=after, fails=True)


def _property_texts(program: CompiledProgram) -> dict[str, str]:
    """Return the properties of a program that are compared as texts, by their names in messages."""
    return {
        **dict(sorted(program.algorithm.items())),
        "collectives": _counts_text(program.collectives),
        "groups": program.groups,
        "started apart": "yes" if program.starts else "no",
        "beside the collective in each turn of the loop": _counts_text(program.around),
        "once in a call": _counts_text(program.around_loop),
    }


def _counts_text(counts: Mapping[str, int]) -> str:
    """Return a text of the count of each kind, such as ``2 all-gather, 1 copy``."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _memory_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> Iterator[Difference]:
    """Yield a Difference for each size of memory that grew by more than the allowed growth."""
    for name, field in _MEMORY_FIELDS.items():
        old_bytes, new_bytes = getattr(old_program, field), getattr(new_program, field)
        if new_bytes > old_bytes + max(MEMORY_GROWTH * old_bytes, LEAST_MEMORY_GROWTH_BYTES):
            before, after = bytes_text(old_bytes), bytes_text(new_bytes)
            if before == after:
                before, after = f"{old_bytes} bytes", f"{new_bytes} bytes"
            yield Difference(name=name, before=before, now=after, fails=True)


def judge_compiled_session(verdicts: Sequence[CompiledVerdict]) -> SessionVerdict:
    """Return the verdict on a session that compiled, from the verdicts on its cases.

    The outcome is NO_VERDICT if nothing was compiled. A case that runs out of memory as expected
    counts as compiled.
    """
    # `expected` is set only for a case that runs out of memory.
    is_compiled = any(verdict.expected or verdict.program.now for verdict in verdicts)
    sentences = {SessionOutcome.NO_VERDICT: "" if is_compiled else "nothing was compiled"}
    releases = sorted({verdict.program.release for verdict in verdicts} - {""})
    return build_session_verdict(
        sentences,
        verdicts,
        default_text=f"{plural(len(verdicts), 'case')} compiled by {', '.join(releases)}",
        # Each compiler but the first is compared with the compiler before it.
        is_compared=len({verdict.spec.compiler for verdict in verdicts}) > 1,
    )
