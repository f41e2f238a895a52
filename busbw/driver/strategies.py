"""One launch of training under a strategy: a group of local processes, one Run of all answers.

A single process is a group of one. What members say is held against each other here: no member
can know the weights of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw import wire
from busbw.model import (
    CNN_BATCH,
    CNN_BYTES,
    Capability,
    Case,
    Failure,
    FailureKind,
    LaunchId,
    Proof,
    Run,
    StrategyRun,
    StrategyTraining,
    TrainingStrategy,
    plural,
)

from .bundle import Bundle
from .group import LocalStart
from .process import Starter
from .training import Cast, trained

_SERVERS = 1


@dataclass(frozen=True, kw_only=True)
class StrategyLaunch:
    """How the group of one launch is started; `examples` is the file that is learned from."""

    starter: Starter
    bundle: Bundle
    name: LaunchId
    examples: str = ""
    on_note: Callable[[str], None] = lambda note: None

    def measure(self, case: Case, timeout_s: float) -> Run | Failure:
        """The Run of `case`, or the Failure that stands for it; it bears the launch's name."""
        starter = replace(self.starter, capability=Capability.TRAIN, ranks=case.ranks)
        start = LocalStart(starter=starter, bundle=self.bundle, launch=self.name)
        training = training_of(case, self.starter.device, self.examples)
        answers = trained(_cast(training), training, start, timeout_s, self.on_note)
        if isinstance(answers, Failure):
            return replace(answers, launch=self.name)
        runs = [
            wire.from_json(StrategyRun, value, role.name)
            for role, (_, value) in sorted(answers.items(), key=lambda one: one[0].index)
        ]
        if training.strategy.is_mirrored and not all(run.reductions for run in runs):
            message = f"{case.strategy}: no reduction of gradients was found in the graph"
            kind = FailureKind.NOT_A_COLLECTIVE
            return Failure(kind=kind, message=message, launch=self.name)
        wrong = disagreement(training, runs)
        if wrong:
            return Failure(kind=FailureKind.WRONG_RESULT, message=wrong, launch=self.name)
        return run_of(case, merged(runs), self.name)


def training_of(case: Case, device: str, examples: str) -> StrategyTraining:
    """What the processes that train for `case` are asked for."""
    return StrategyTraining(
        strategy=TrainingStrategy(case.strategy),
        ranks=case.ranks,
        examples=examples,
        device=device or "cpu",
        batch=CNN_BATCH,
    )


def _cast(training: StrategyTraining) -> Cast:
    strategy, ranks = training.strategy, training.ranks
    if strategy is TrainingStrategy.MULTI_WORKER_MIRRORED:
        return Cast(counts={"worker": ranks}, training="worker")
    if strategy is TrainingStrategy.PARAMETER_SERVER:
        counts = {"chief": 1, "worker": ranks, "ps": _SERVERS}
        return Cast(counts=counts, training="chief", offering=("worker", "ps"))
    return Cast(counts={"chief": 1}, training="chief")


def disagreement(training: StrategyTraining, runs: Sequence[StrategyRun]) -> str:
    """What in the members' answers cannot be, in words; empty if they agree in all.

    Every member's variables must have seen each update, and where each rank has weights of its
    own, all must be the same bit for bit, after the first step and at the end.
    """
    for run in runs:
        expected = training.epochs * run.steps * training.updates_of_a_step
        if run.updates != expected or len(run.epochs_s) != training.epochs:
            return (
                f"the variables saw {run.updates} updates in {plural(len(run.epochs_s), 'epoch')}, "
                f"expected {expected} in {training.epochs}"
            )
    for when, digests in (
        ("after the first step", _joined([run.first_digests for run in runs])),
        ("at the end", _joined([run.last_digests for run in runs])),
    ):
        copies = training.ranks if training.strategy.is_mirrored else 1
        if len(digests) != copies:
            return (
                f"{when} there are weights of {plural(len(digests), 'rank')}, expected of {copies}"
            )
        (first, digest), *others = digests.items()
        for rank, other in others:
            if other != digest:
                return f"{when} the weights of {rank} are others than those of {first}"
    return ""


def _joined(digests: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {rank: digest for one in digests for rank, digest in one.items()}


def merged(runs: Sequence[StrategyRun]) -> StrategyRun:
    """One of all: an epoch takes as long as for the slowest, reductions add up.

    The rest is as the first one saw it.
    """
    kinds = dict.fromkeys(kind for run in runs for kind in run.reductions)
    return replace(
        runs[0],
        epochs_s=tuple(max(times) for times in zip(*(run.epochs_s for run in runs), strict=True)),
        compile_s=max(run.compile_s for run in runs),
        first_digests=_joined([run.first_digests for run in runs]),
        last_digests=_joined([run.last_digests for run in runs]),
        reductions={kind: sum(run.reductions.get(kind, 0) for run in runs) for kind in kinds},
        replicas=sum(run.replicas for run in runs),
    )


def run_of(case: Case, trained: StrategyRun, launch: LaunchId) -> Run:
    """The Run of `case`: a sample is the seconds of a step in an epoch after the first."""
    copies = len(trained.last_digests)
    return Run(
        launch=launch,
        iterations=trained.steps,
        samples_s=tuple(epoch_s / trained.steps for epoch_s in trained.epochs_s[1:]),
        compile_s=trained.compile_s,
        # Bit for bit, where there are several copies; else there is nothing to compare with.
        values_checked=copies * CNN_BYTES // 4 if copies > 1 else 0,
        proof=Proof(
            collectives=trained.reductions,
            payload_copies=0,
            algorithm=case.strategy,
            array_bytes=trained.reduced_bytes,
            groups=case.groups,
            read_from="executed graph" if trained.reductions else "counted updates",
        ),
        clock=case.clock.value,
        framework_path=trained.framework_path,
        versions=trained.versions,
        first_call_s=trained.epochs_s[0],
        training=trained,
    )
