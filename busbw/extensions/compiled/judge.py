"""Compare the program that a compiler made for a case with an earlier program. Nothing is timed.

A compiler makes the same program every time, so that a single result is enough, and every
difference is real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
        is_stored: Whether the program is going to be stored, so that no difference fails.
        reference_name: The name of the earlier program in messages.

    """

    requires_baselines: bool = False
    accepts_changes: bool = False
    is_stored: bool = False
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
    text, needed, available = failure.first_line, failure.needed_bytes, failure.available_bytes
    if failure.kind is FailureKind.COMPILE_ERROR:
        return replace(verdict, outcome=Outcome.COMPILE_ERROR, failed=True, text=text)
    if failure.kind is not FailureKind.OUT_OF_MEMORY:
        text = f"{failure.kind.text}: {text}"
        return replace(verdict, outcome=Outcome.FAILED, failed=True, text=text)
    if needed is not None and available is not None:
        text = f"needs {bytes_text(needed, 2)}, {bytes_text(available, 2)} available"
    if baseline is None:
        is_unexpected, reason = settings.requires_baselines, "no baseline"
    elif baseline.compiled is None:
        is_unexpected, reason = False, f"expected, as in {settings.reference_name}"
    else:
        is_unexpected = True
        reason = f"it compiled in {settings.reference_name} ({baseline.release})"
    failed = is_unexpected and not settings.is_stored
    return replace(
        verdict,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=failed,
        expected=settings.is_stored or (baseline is not None and not failed),
        text=f"{text}; {reason}",
    )


def _judge_program(
    verdict: CompiledVerdict,
    case: Case,
    now: CompiledProgram,
    baseline: CompiledBaseline | None,
    settings: CompileJudgingSettings,
) -> CompiledVerdict:
    reference = settings.reference_name
    requires_baselines = settings.requires_baselines and not settings.is_stored
    if baseline is None:
        text = f"{now.algorithm_text}; nothing to compare with"
        return replace(verdict, outcome=Outcome.NO_BASELINE, failed=requires_baselines, text=text)
    if baseline.case.protocol != case.protocol:
        text = f"another program: {baseline.case.protocol} in {reference}, {case.protocol} now"
        return replace(verdict, outcome=Outcome.INCOMPARABLE, failed=requires_baselines, text=text)
    if baseline.compiled is None:
        text = f"it fits now; out of memory in {reference}"
        return replace(verdict, outcome=Outcome.IMPROVED, text=text)
    differences = tuple(
        replace(change, fails=change.fails and not _is_accepted(change, settings))
        for change in program_differences(baseline.compiled, now)
    )
    if not differences:
        return replace(verdict, text=f"compiles as in {reference}: {now.algorithm_text}")
    return replace(
        verdict,
        outcome=Outcome.CHANGED,
        failed=any(change.fails for change in differences),
        text="; ".join(change.text for change in differences),
        program=replace(verdict.program, differences=differences),
    )


def _is_accepted(change: Difference, settings: CompileJudgingSettings) -> bool:
    return settings.is_stored or (settings.accepts_changes and change.name not in _MEMORY_FIELDS)


# The field of each size of memory, by its name in messages.
_MEMORY_FIELDS = {"temporary memory": "temporary_bytes", "peak memory": "peak_bytes"}

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
        differences = collective_differences(old_program.uses, new_program.uses)
    else:
        differences = tuple(_property_differences(old_program, new_program))
    return (*differences, *_memory_differences(old_program, new_program))


def _property_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> Iterator[Difference]:
    old, new = old_program.algorithm, new_program.algorithm
    if bool(old) is bool(new):
        texts = {name: (old.get(name, ""), new.get(name, "")) for name in sorted({*old, *new})}
    else:
        published = {True: "published", False: "not published"}
        texts = {"algorithm": (published[bool(old)], published[bool(new)])}
    texts |= {name: (text(old_program), text(new_program)) for name, text in _PROPERTIES.items()}
    for name, (old_text, new_text) in texts.items():
        if old_text != new_text:
            yield Difference(name=name, before=old_text, now=new_text, fails=True)


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _memory_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> Iterator[Difference]:
    for name, field in _MEMORY_FIELDS.items():
        old_bytes, new_bytes = getattr(old_program, field), getattr(new_program, field)
        most = old_bytes + max(MEMORY_GROWTH * old_bytes, LEAST_MEMORY_GROWTH_BYTES)
        texts = bytes_text(old_bytes), bytes_text(new_bytes)
        if texts[0] == texts[1]:
            texts = f"{old_bytes} bytes", f"{new_bytes} bytes"
        if old_bytes != new_bytes:
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
    by = ", ".join(sorted({verdict.program.release for verdict in tried} - {""}))
    skipped = len(verdicts) - len(tried)
    more = f"; {plural(skipped, 'case')} skipped" if skipped else ""
    return f"{plural(len(tried), 'case')} for {where} compiled by {by}{more}"
