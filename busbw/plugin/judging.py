"""What was measured and what it is compared with, handed to the judge; verdicts for the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw import judge, stats
from busbw.model import (
    Case,
    CompiledVerdict,
    CompileSpec,
    Outcome,
    SessionOutcome,
    SessionVerdict,
    Spec,
    Verdict,
)

from . import machine, updating
from .settings import Settings
from .state import State


def judged(state: State, resolved: Mapping[Spec, Case]) -> dict[Spec, judge.Judged]:
    """Every measured case, as it stands."""
    return {spec: _judged(state, spec, len(resolved)) for spec in resolved}


def _judged(state: State, spec: Spec, number: int) -> judge.Judged:
    """One case as it stands, held against what the hardware allows."""
    assert state.target is not None
    found = _compared(state, spec, number)
    verdict = judge.with_ceiling(
        found.verdict,
        state.target.slice_key(spec),
        state.measurements[spec].runs,
        paired=state.settings.against is not None,
    )
    if verdict.outcome is Outcome.FAILED:
        # More launches make no failure firmer.
        return judge.Judged(verdict=verdict)
    return replace(found, verdict=verdict)


def _compared(state: State, spec: Spec, number: int) -> judge.Judged:
    assert state.plan is not None and state.target is not None
    policy = judge.POLICIES[state.target.device]
    terms = judge.Terms(policy=policy, cases=number, launches=state.plan.launches)
    measurement = state.measurements[spec]
    if state.settings.against is not None:
        return judge.judge_pair(spec, state.references[spec], measurement, terms)
    stored, published = state.found[spec]
    terms = judge.Terms(
        policy=policy,
        cases=number,
        launches=state.plan.launches,
        require_baselines=state.settings.require_baselines,
        accept_all=updating.takes_slower(
            state.settings, stored.baseline, measurement, policy.budget
        ),
        accept_new=state.settings.update_baselines == "new",
        memory_limit_bytes=state.settings.memory_limit_bytes,
    )
    return judge.judge_case(
        spec, measurement, stored.baseline, terms, nearest=stored.nearest, reference=published
    )


def judge_all(
    state: State, specs: tuple[Spec, ...], resolved: Mapping[Spec, Case], skip: str
) -> None:
    """The verdicts of all cases and of the session."""
    assert state.plan is not None
    found = judged(state, resolved)
    state.verdicts.update({spec: one.verdict for spec, one in found.items()})
    state.verdicts = {spec: state.verdicts[spec] for spec in specs}
    _locate(state, specs)
    state.session_verdict = judge.judge_session(
        [state.verdicts[spec] for spec in specs],
        list(state.measurements.values()),
        judge.Circumstances(
            launches=state.plan.launches,
            expecting=state.settings.against is None,
            accepting=_accepting(state.settings),
            asked_to_skip=skip,
            missing=_missing(state, specs),
            fallen_back=_fallen_back(state, resolved),
            suspected=tuple(spec.id for spec, one in found.items() if one.suspected),
            shifted=_shifted(state, resolved),
            curve=tuple(
                f"{group.case.group_name}: {group.shifted.text}"
                for group in state.groups
                if group.shifted is not None
            ),
        ),
    )


def _accepting(settings: Settings) -> bool:
    """Whether running out of memory is to be stored as what the machine does."""
    return settings.update_baselines in ("all", "new") and settings.memory_limit_bytes is None


def give_up(state: State, specs: Sequence[Spec], compiled: Sequence[CompileSpec], why: str) -> None:
    """Nobody can say what there is: every case fails, and the session has no verdict."""
    for spec in specs:
        state.verdicts[spec] = Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=why)
    for one in compiled:
        state.compiled[one] = CompiledVerdict(
            spec=one, outcome=Outcome.FAILED, failed=True, text=why
        )
    state.session_verdict = SessionVerdict(outcome=SessionOutcome.NO_VERDICT, text=why)


def _locate(state: State, specs: tuple[Spec, ...]) -> None:
    """The curves, and below each case that got slower where over the sizes that sits."""
    assert state.target is not None
    state.groups = judge.groups_of_cases(
        [state.verdicts[spec] for spec in specs],
        judge.POLICIES[state.target.device],
        paired=state.settings.against is not None,
    )
    located = {group.case.group_name: group.located for group in state.groups if group.located}
    for spec in specs:
        verdict = state.verdicts[spec]
        found = located.get(verdict.case.group_name) if verdict.case else None
        if found is not None and verdict.outcome is Outcome.REGRESSED:
            text = f"over the sizes: {found.where.value}: {found.text}"
            state.verdicts[spec] = replace(verdict, notes=(*verdict.notes, text))


def _missing(state: State, specs: tuple[Spec, ...]) -> tuple[str, ...]:
    """Selected cases that have baselines here but were skipped, by framework."""
    assert state.target is not None
    out_of_reach = {*state.target.unreached, *state.settings.absent_frameworks}
    skipped = {
        spec.framework: state.verdicts[spec].text
        for spec in specs
        if state.verdicts[spec].outcome is Outcome.SKIPPED and spec.framework in out_of_reach
    }
    return tuple(text for name, text in skipped.items() if name in state.stored_frameworks)


def _fallen_back(state: State, resolved: Mapping[Spec, Case]) -> tuple[str, ...]:
    """Clocks and algorithms that are others than those of the baseline, though nobody asked."""
    if state.settings.against is not None:
        return ()
    found = []
    for spec, case in resolved.items():
        stored, _ = state.found[spec]
        before = stored.baseline
        if before is not None and before.case.clock is not case.clock and spec.clock == "default":
            found.append(
                f"{case.framework}: the clock fell back to {case.clock.value}, "
                f"the baseline was read from {before.case.clock.value}"
            )
        if before is None and stored.other_strategy and spec.strategy == "default":
            found.append(
                f"{case.framework}: the default is {case.strategy} now, "
                f"the baseline is of {stored.other_strategy}"
            )
    return tuple(dict.fromkeys(found))


def _shifted(state: State, resolved: Mapping[Spec, Case]) -> str:
    """Whether the whole machine runs at another speed, and what else is not as it was."""
    assert state.target is not None
    if state.settings.against is not None:
        return ""
    moved, before = [], None
    for spec in resolved:
        stored, runs = state.found[spec][0].baseline, state.measurements[spec].runs
        anchors_s = stats.anchors_s(runs)
        if stored is None or stored.oom or not runs or not anchors_s:
            continue
        with_anchor = [one for one in stored.sessions if one.anchors_s]
        if with_anchor:
            before = with_anchor[-1]
            moved.append(
                judge.moved(
                    [stats.launch_time_s(run) for run in runs],
                    anchors_s,
                    [time_s for one in with_anchor for time_s in one.times_s],
                    [anchor_s for one in with_anchor for anchor_s in one.anchors_s],
                )
            )
    text = judge.environment_shift(moved, judge.POLICIES[state.target.device])
    if not text or before is None or state.environment is None:
        return text
    now = {name: text for one in state.environment.versions.values() for name, text in one.items()}
    differences = judge.differences(
        {**before.versions, **before.surroundings},
        {**now, **machine.surroundings(state.environment)},
    )
    return f"{text}; {'; '.join(differences) or 'versions and flags are as they were'}"
