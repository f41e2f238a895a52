"""The cases of a session that compiles, and their judge, which compares programs and times nothing.

A compiler makes the same program every time, so that a single result is enough, and every
difference is real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.extensions.program.report import argument_differences, collective_differences
from busbw.extensions.program.worker_values import ProgramDifference
from busbw.judge.session import build_session_verdict
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import SessionVerdict
from busbw.model.words import GIB, MIB, FailureKind, Outcome, SessionOutcome, bytes_text, plural
from busbw.session.state import CollectedSession, JudgedSession

from .worker import (
    CompiledBaseline,
    CompiledComparison,
    CompiledProgram,
    CompiledVerdict,
    Compiler,
    CompileSpec,
)

# The memory of a compiled program may grow by this fraction, or by this number of bytes if that is
# more. A compiler's scratch space changes by some KiB from release to release. And if each payload
# is twice the payload before it, a hundredth of a chip's memory hardly changes which payloads fit.
ALLOWED_MEMORY_GROWTH_FRACTION = 0.01
ALLOWED_MEMORY_GROWTH_BYTES = MIB


@dataclass(frozen=True, kw_only=True)
class CompileJob:
    """A case to compile for a topology.

    Attributes:
        case: The case on the devices of the topology.
        key: The environment key of the case, by which its baseline is found.
        baseline: The stored program of the case; None if no program is stored.

    """

    case: Case
    key: EnvironmentKey
    baseline: CompiledBaseline | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilingSession(CollectedSession):
    """A session that compiles instead of measuring.

    Attributes:
        specs: The selected cases.
        jobs: Maps each case to its job. A case whose compiler does not support the topology has no
            job.
        compilers: The compilers, by (label of the compiler, name of the topology).

    """

    specs: tuple[CompileSpec, ...]
    jobs: Mapping[CompileSpec, CompileJob]
    compilers: Mapping[tuple[str, str], Compiler]


def judge_compiled_case(
    spec: CompileSpec,
    case: Case,
    result: CompiledProgram | Failure,
    baseline: CompiledBaseline | None,
    *,
    release: str = "",
    requires_baseline: bool = False,
    accepts_changes: bool = False,
    will_be_stored: bool = False,
) -> CompiledVerdict:
    """Return the verdict on a case: whether its compiled program differs from an earlier program.

    Args:
        spec: The case as it was selected.
        case: The case on the devices of the topology.
        result: The compiled program, or the failure of the compiler.
        baseline: The earlier program of the case; None if no earlier program is known.
        release: The release of the compiler that produced `result`.
        requires_baseline: Whether a case without a comparable baseline fails.
        accepts_changes: Whether a case with a changed algorithm passes. A case that needs more
            memory fails all the same.
        will_be_stored: Whether the program will be stored as the new baseline. Then the case does
            not fail, however the program differs from the earlier program.

    """
    program = CompiledComparison(release=release, baseline=baseline)
    verdict = CompiledVerdict(
        spec=spec, case=case, outcome=Outcome.PASS, failed=False, text="", program=program
    )
    requires_baseline = requires_baseline and not will_be_stored
    if isinstance(result, Failure):
        return _judge_failure(verdict, result, requires_baseline, will_be_stored)
    verdict = replace(verdict, program=replace(program, now=result))
    if baseline is None:
        text = f"{result.algorithm_text}; nothing to compare with"
        return replace(verdict, outcome=Outcome.NO_BASELINE, failed=requires_baseline, text=text)
    if baseline.case.protocol != case.protocol:
        text = f"another program: {baseline.case.protocol} in the baseline, {case.protocol} now"
        return replace(verdict, outcome=Outcome.INCOMPARABLE, failed=requires_baseline, text=text)
    if baseline.compiled is None:
        text = f"it fits now; out of memory with {baseline.release}"
        return replace(verdict, outcome=Outcome.IMPROVED, text=text)
    # Memory decides which payloads fit, so that only stored programs may need more of it.
    differences = tuple(
        replace(
            change,
            fails=not will_be_stored and (change.name in _MEMORY_FIELDS or not accepts_changes),
        )
        for change in program_differences(baseline.compiled, result)
    )
    if not differences:
        text = f"compiles as with {baseline.release}: {result.algorithm_text}"
        return replace(verdict, text=text)
    differences += tuple(argument_differences(baseline.compiled.arguments, result.arguments))
    return replace(
        verdict,
        outcome=Outcome.CHANGED,
        failed=any(change.fails for change in differences),
        text="; ".join(change.text for change in differences),
        program=replace(verdict.program, differences=differences),
    )


def _judge_failure(
    verdict: CompiledVerdict, failure: Failure, requires_baseline: bool, will_be_stored: bool
) -> CompiledVerdict:
    """Return `verdict` with the outcome of a case that the compiler did not compile.

    A case that is not OUT_OF_MEMORY fails always. A case that is OUT_OF_MEMORY (its program needs
    more memory than the chip has) fails if the earlier program fitted into the memory, or if a
    baseline is required and there is none. The case does not fail if the outcome will be stored.

    Args:
        verdict: The verdict so far, with the earlier program of the case.
        failure: The reason why the case was not compiled.
        requires_baseline: Whether a case without a baseline fails.
        will_be_stored: Whether the outcome will be stored as the new baseline.

    """
    text = failure.first_line
    baseline = verdict.program.baseline
    verdict = replace(verdict, failed=True, failure=failure)
    if failure.kind is FailureKind.COMPILE_ERROR:
        return replace(verdict, outcome=Outcome.COMPILE_ERROR, text=text)
    if failure.kind is not FailureKind.OUT_OF_MEMORY:
        return replace(verdict, outcome=Outcome.FAILED, text=f"{failure.kind.text}: {text}")
    verdict = replace(verdict, outcome=Outcome.OUT_OF_MEMORY, expected=will_be_stored)
    if baseline is None:
        return replace(verdict, failed=requires_baseline, text=f"{text}; no baseline")
    if baseline.compiled is None:
        expectation = f"expected, as with {baseline.release}"
        return replace(verdict, failed=False, expected=True, text=f"{text}; {expectation}")
    return replace(
        verdict, failed=not will_be_stored, text=f"{text}; it compiled with {baseline.release}"
    )


# The field of each size of memory, by its name in messages.
_MEMORY_FIELDS = {"temporary memory": "temporary_bytes", "peak memory": "peak_bytes"}


def program_differences(
    old_program: CompiledProgram, new_program: CompiledProgram
) -> Iterator[ProgramDifference]:
    """Yield all differences between two programs of a case: first the algorithm, last the memory.

    A property that only one of the programs has is a difference. Of the memory, the temporary
    memory and the peak memory are compared. More memory is a difference only if the growth exceeds
    both ALLOWED_MEMORY_GROWTH_FRACTION of the old memory and ALLOWED_MEMORY_GROWTH_BYTES. Less
    memory is no difference.
    """
    yield from collective_differences(old_program.uses, new_program.uses)
    old_texts = _property_texts(old_program)
    new_texts = _property_texts(new_program)
    for name in {**old_texts, **new_texts}:
        before = old_texts.get(name, "")
        after = new_texts.get(name, "")
        if before != after:
            yield ProgramDifference(name=name, before=before, now=after, fails=True)
    for name, attribute in _MEMORY_FIELDS.items():
        old_bytes = getattr(old_program, attribute)
        new_bytes = getattr(new_program, attribute)
        if new_bytes > old_bytes + max(
            ALLOWED_MEMORY_GROWTH_FRACTION * old_bytes, ALLOWED_MEMORY_GROWTH_BYTES
        ):
            # The two texts differ: a growth by 1 % needs two decimals, and by 1 MiB only one.
            decimals = 2 if new_bytes >= GIB else 1
            yield ProgramDifference(
                name=name,
                before=bytes_text(old_bytes, decimals),
                now=bytes_text(new_bytes, decimals),
                fails=True,
            )


def _property_texts(program: CompiledProgram) -> dict[str, str]:
    """Return the texts of the properties of a program that are compared, by property name.

    The names are shown in messages. The result is empty for a user's program, whose collectives
    are compared one by one instead.
    """
    if not program.groups:
        return {}
    return {
        **dict(sorted(program.algorithm.items())),
        "collectives": _counts_text(program.collectives),
        "groups": program.groups,
        "started apart": "yes" if program.starts else "no",
        "beside the collective in each turn of the loop": _counts_text(program.around),
        "once in a call": _counts_text(program.around_loop),
    }


def _counts_text(counts: Mapping[str, int]) -> str:
    """Return `counts`, a mapping of kinds to counts, as a text such as ``2 all-gather, 1 copy``."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def judge_compiled_session(verdicts: Sequence[CompiledVerdict]) -> SessionVerdict:
    """Return the verdict on a session that compiles, from the verdicts on its cases.

    The outcome is NO_VERDICT if no case was compiled. A case that was expected to run out of
    memory, and did so, counts as compiled.
    """
    # `expected` is set only for a case that runs out of memory.
    is_compiled = any(verdict.expected or verdict.program.now for verdict in verdicts)
    releases = sorted({verdict.program.release for verdict in verdicts} - {""})
    return build_session_verdict(
        {SessionOutcome.NO_VERDICT: "" if is_compiled else "nothing was compiled"},
        verdicts,
        default_text=f"{plural(len(verdicts), 'case')} compiled by {', '.join(releases)}",
        # Each compiler but the first is compared with the compiler before it.
        is_compared=len({verdict.spec.compiler for verdict in verdicts}) > 1,
    )


def judge_programs(
    compiling_session: CompilingSession, results: Mapping[CompileSpec, CompiledProgram | Failure]
) -> JudgedSession:
    """Judge the compiled programs of a session, and return the session with all verdicts.

    `results` maps each compiled case to its program, or to the failure of the compiler. The
    programs of the first compiler are compared with the baselines, and --require-baselines applies
    to these programs only. The programs of a further compiler are compared with the programs of
    the compiler before it. A case is skipped if its compiler does not support the topology.
    """
    verdicts: dict[CaseSpec, CompiledVerdict] = {}
    previous: dict[CompileSpec, CompiledBaseline | None] = {}
    options = compiling_session.options
    for spec in compiling_session.specs:
        compiler = compiling_session.compilers[spec.compiler, spec.topology]
        if compiler.missing:
            verdicts[spec] = CompiledVerdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=compiler.missing
            )
            continue
        job = compiling_session.jobs[spec]
        case_key = replace(spec, compiler="")
        baseline = previous.get(case_key, job.baseline)
        verdicts[spec] = judge_compiled_case(
            spec,
            job.case,
            results[spec],
            baseline,
            release=compiler.release,
            requires_baseline=options.require_baselines and case_key not in previous,
            accepts_changes="accept_compiled_changes" in options.extra,
            will_be_stored=options.update_baselines == "all"
            or (options.update_baselines == "new" and baseline is None),
        )
        previous[case_key] = baseline_of_verdict(verdicts[spec], compiling_session.date)
    return JudgedSession(
        session_verdict=judge_compiled_session(list(verdicts.values())),
        verdicts=verdicts,
        observations=compiling_session,
    )


def baseline_of_verdict(verdict: CompiledVerdict, date: str) -> CompiledBaseline | None:
    """Return the compiled program of a judged case as a new baseline.

    The baseline is for storing, or for comparing other programs with it. If the program did not fit
    into memory, the baseline has no program. `date` is the day of the session. Returns None if
    nothing was compiled: the case was skipped, or the compiler failed for another reason. A case
    that fails because its program changed has a baseline, too.
    """
    program = verdict.program
    is_stored = program.now is not None or verdict.outcome is Outcome.OUT_OF_MEMORY
    if verdict.case is None or not is_stored:
        return None
    return CompiledBaseline(
        case=verdict.case, compiled=program.now, date=date, release=program.release
    )
