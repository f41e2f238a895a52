"""Training a small net under a strategy: a whole step is timed, in a group of processes.

How many ranks and processes take part follows from the strategy. What the processes answered is
compared here, since no member can know the weights of another, and becomes one Run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import Asked, Case, GridError, NotHereError, Spec
from busbw.model.launch import Failure, LaunchId, OwnProcesses, Proof, Run
from busbw.model.machine import DeviceSet, EnvironmentKey
from busbw.model.training import (
    CNN,
    CNN_BATCH,
    CNN_BYTES,
    Net,
    TrainingAnswer,
    TrainingRequest,
    TrainingRun,
    TrainingStrategy,
)
from busbw.model.words import Clock, Device, FailureKind, plural
from busbw.model.workload import Workload

from .collective import case_with
from .dense_step import check_sums_in_place

# Strategies with a process for each rank.
_OF_PROCESSES = (TrainingStrategy.MULTI_WORKER_MIRRORED, TrainingStrategy.PARAMETER_SERVER)


@dataclass(frozen=True, kw_only=True)
class Training(Workload, OwnProcesses):
    """Plain gradient descent on a convolutional net, its gradient the payload."""

    kind = CNN
    own_strategies = tuple(strategy.value for strategy in TrainingStrategy)
    own_payload_bytes = CNN_BYTES

    @classmethod
    def check(cls, asked: Asked) -> None:
        check_sums_in_place(cls.kind, asked)

    def key_on(self, spec: Spec, key: EnvironmentKey) -> EnvironmentKey:
        strategy = TrainingStrategy(spec.strategy)
        if strategy is TrainingStrategy.ONE_DEVICE:
            return replace(key, ranks=1, mesh="", processes=1)
        if strategy in _OF_PROCESSES:
            return replace(key, processes=key.ranks)
        return key

    def case_on(self, spec: Spec, key: EnvironmentKey, found: DeviceSet, only: str) -> Case:
        """Raises NotHereError without such a strategy, GridError for uneven shares of a batch."""
        _check_device(TrainingStrategy(spec.strategy), found.device)
        if CNN_BATCH % key.ranks:
            raise GridError(
                f"{key.ranks} ranks do not share out the {CNN_BATCH} examples of a {self.kind} "
                "training step evenly; --ranks says how many to use"
            )
        program = f"{self.kind}-step-batch-{CNN_BATCH}"
        return case_with(spec, key, found, only, Clock.HOST, program)

    def request(self, case: Case, device: str, examples: str) -> TrainingRequest:
        """The whole training: 20 epochs, of which the first is not counted."""
        strategy = TrainingStrategy(case.strategy)
        return TrainingRequest(
            net=Net.CNN,
            strategy=strategy,
            ranks=case.ranks,
            servers=1 if strategy is TrainingStrategy.PARAMETER_SERVER else 0,
            device=device or "cpu",
            examples_path=examples,
            epochs=20,
            batch=CNN_BATCH,
            unseen=297,
        )

    def run_of(
        self,
        case: Case,
        request: TrainingRequest,
        answers: Sequence[TrainingAnswer],
        launch: LaunchId,
    ) -> Run | Failure:
        """A sample is the seconds of a step in an epoch."""
        found = checked(request, answers)
        if isinstance(found, Failure):
            return replace(found, launch=launch)
        return run_of(case, found.run, launch)


def _check_device(strategy: TrainingStrategy, device: Device) -> None:
    """A TPU has its own strategy; servers and their workers are measured on CPUs only."""
    where, name = device.value.upper(), strategy.value
    if strategy is TrainingStrategy.TPU and device is not Device.TPU:
        raise NotHereError(f"the strategy {name} is for TPUs, this is a {where}")
    if strategy is not TrainingStrategy.TPU and device is Device.TPU:
        raise NotHereError(f"a TPU is trained on by the strategy tpu alone, not by {name}")
    if strategy is TrainingStrategy.PARAMETER_SERVER and device is not Device.CPU:
        raise NotHereError(
            f"with {name} every worker would open all {where}s of this host: it is measured on "
            "CPUs alone"
        )


def checked(
    request: TrainingRequest, answers: Sequence[TrainingAnswer]
) -> TrainingAnswer | Failure:
    if request.has_copies and not all(one.run.reductions for one in answers):
        name = request.strategy.value if request.strategy else request.name
        message = f"{name}: no reduction of gradients was found in the graph"
        return Failure(kind=FailureKind.NOT_A_COLLECTIVE, message=message)
    wrong = _miscounted(request, answers) or _unlike(request, answers)
    if wrong:
        return Failure(kind=FailureKind.WRONG_RESULT, message=wrong)
    return _merged(answers)


def _miscounted(request: TrainingRequest, answers: Sequence[TrainingAnswer]) -> str:
    """Which count is not what every member's variables must have seen; empty if none is."""
    gradients = sum(one.gradients for one in answers)
    for one in answers:
        run, steps = one.run, request.epochs * one.run.steps
        expected = steps * request.updates_of_a_step
        saw = f"the variables saw {run.updates} updates"
        if len(run.epochs_s) != request.epochs or (
            one.global_step is None and run.updates != expected
        ):
            epochs = plural(len(run.epochs_s), "epoch")
            return f"{saw} in {epochs}, expected {expected} in {request.epochs}"
        counted = "" if one.global_step is None else f" and the global step is {one.global_step}"
        if (run.updates, gradients) != (expected, steps * request.ranks) or (
            one.global_step not in (None, run.updates)
        ):
            wanted = f"expected {expected} of {steps * request.ranks}"
            return f"{saw} of {gradients} gradients{counted}, {wanted}"
    return ""


def _unlike(request: TrainingRequest, answers: Sequence[TrainingAnswer]) -> str:
    """Empty where none do. Where each rank has its own weights, all must be the same bits."""
    copies = request.ranks if request.has_copies else 1
    for when, field in (("after the first step", "first_digests"), ("at the end", "last_digests")):
        digests = _joined([getattr(one.run, field) for one in answers])
        if len(digests) != copies:
            have = plural(len(digests), "rank")
            return f"{when} there are weights of {have}, expected of {copies}"
        (first, digest), *others = digests.items()
        for rank, other in others:
            if other != digest:
                return f"{when} the weights of {rank} differ from those of {first}"
    return ""


def _joined(digests: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {rank: digest for one in digests for rank, digest in one.items()}


def _merged(answers: Sequence[TrainingAnswer]) -> TrainingAnswer:
    """An epoch takes as long as for the slowest; reductions and gradients add up."""
    runs = [one.run for one in answers]
    kinds = dict.fromkeys(kind for run in runs for kind in run.reductions)
    run = replace(
        runs[0],
        epochs_s=tuple(max(times) for times in zip(*(run.epochs_s for run in runs), strict=True)),
        compile_s=max(run.compile_s for run in runs),
        first_digests=_joined([run.first_digests for run in runs]),
        last_digests=_joined([run.last_digests for run in runs]),
        reductions={kind: sum(run.reductions.get(kind, 0) for run in runs) for kind in kinds},
        replicas=sum(run.replicas for run in runs),
    )
    return replace(answers[0], run=run, gradients=sum(one.gradients for one in answers))


def run_of(case: Case, trained: TrainingRun, launch: LaunchId) -> Run:
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
