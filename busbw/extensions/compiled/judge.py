"""What a compiler made of a case, compared with what it made of it before. Nothing is timed.

A compiler gives the same program every time: one answer is enough, and every difference counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.judge.session import session_verdict
from busbw.model.case import Case
from busbw.model.launch import Failure
from busbw.model.program import Use, Uses
from busbw.model.verdict import SessionVerdict
from busbw.model.words import MIB, FailureKind, Outcome, SessionOutcome, bytes_text, plural

from .worker_values import (
    Compiled,
    CompiledBaseline,
    CompiledSpec,
    CompiledVerdict,
    Difference,
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
        text = f"{failure.kind.words}: {failure.first_line}"
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
        outcome: Outcome, text: str, *, failed: bool = False, found: Sequence[Difference] = ()
    ) -> CompiledVerdict:
        program = Program(now=now, differences=tuple(found))
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
    return replace(one, fails=one.fails and not takes)


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
    verdicts: Sequence[CompiledVerdict], *, asked_to_skip: str = "", missing: Sequence[str] = ()
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
    if not any(expected) and not any(one.program.now for one in verdicts):
        reasons.append("nothing was compiled")
    if missing:
        text = f"topologies that have a baseline were not compiled: {'; '.join(missing)}"
        reasons.append(text)
    found = {SessionOutcome.NO_VERDICT: "; ".join(reasons)}
    # Each compiler but the first is compared with the one before it.
    is_compared = len({one.spec.compiler for one in verdicts}) > 1
    otherwise = _compiled(verdicts)
    return session_verdict(found, verdicts, otherwise=otherwise, is_compared=is_compared)


def _compiled(verdicts: Sequence[CompiledVerdict]) -> str:
    tried = [one for one in verdicts if one.outcome is not Outcome.SKIPPED]
    topologies = len({one.spec.topology for one in tried})
    where = f"{topologies} {'topology' if topologies == 1 else 'topologies'}"
    releases = {one.program.release for one in tried}
    by = ", ".join(sorted(filter(None, releases)))
    skipped = len(verdicts) - len(tried)
    more = f"; {plural(skipped, 'case')} skipped" if skipped else ""
    return f"{plural(len(tried), 'case')} for {where} compiled by {by}{more}"


_MOST_PLACES = 2


def collectives_changed(before: Uses, now: Uses) -> tuple[Difference, ...]:
    """Return how the collectives of two programs differ, in order of bytes.

    Collectives are the same that move the same along the same axes. Names, order and line numbers
    move nothing; the lines say where a change is, or where what is no longer there was.
    """
    sides: dict[str, tuple[list[Use], list[Use]]] = {}
    for side, uses in enumerate((before, now)):
        for use in uses:
            sides.setdefault(use.name, ([], []))[side].append(use)
    largest = sorted(sides.items(), key=lambda one: -(*one[1][0], *one[1][1])[0].payload_bytes)
    return tuple(one for name, (a, b) in largest for one in _of_one(name, a, b))


def _of_one(name: str, before: Sequence[Use], now: Sequence[Use]) -> Iterator[Difference]:
    where = _places(before, now)
    for words in (_times, _starts, _algorithm):
        was, has = words(before), words(now)
        if was != has:
            # Such as 12 -> 24 per step: what both end with is said once.
            unit = has.partition(" ")[2]
            was = was.removesuffix(f" {unit}") if has and was else was
            yield Difference(what=name, before=was, now=f"{has or 'none'}{where}", fails=True)
        if not before or not now:
            return


def _times(uses: Sequence[Use]) -> str:
    kinds = dict.fromkeys((one.at_most, one.per_iteration) for one in uses)
    alike = ([one for one in uses if (one.at_most, one.per_iteration) == kind] for kind in kinds)
    counts = [(some[0], sum(one.times for one in some)) for some in alike]
    return ", ".join(sorted(first.times_text(count) for first, count in counts))


def _starts(uses: Sequence[Use]) -> str:
    ways = {one.asynchronous for one in uses}
    words = {True: "asynchronous", False: "synchronous"}
    if len(ways) < 2:
        return words[ways.pop()]
    counts = (
        f"{sum(o.times for o in uses if o.asynchronous is way)} {words[way]}" for way in words
    )
    return ", ".join(counts)


def _algorithm(uses: Sequence[Use]) -> str:
    found = sorted(
        {" ".join(one.algorithm[name] for name in sorted(one.algorithm)) for one in uses}
    )
    return "; ".join(filter(None, found))


def _places(before: Sequence[Use], now: Sequence[Use]) -> str:
    """Return the lines that only one side has; if there are none, the first lines of both sides."""
    then, there = Counter[str](), Counter[str]()
    for counts, uses in ((then, before), (there, now)):
        for one in uses:
            counts[one.source] += one.times
    moved = [one for one in {**there, **then} if then[one] != there[one]]
    found = list(filter(None, moved or there))
    more = f" and {len(found) - _MOST_PLACES} more" if len(found) > _MOST_PLACES else ""
    return f" ({', '.join(found[:_MOST_PLACES])}{more})" if found else ""
