"""Training a small net under a strategy: a whole step is timed, in a group of processes.

How many ranks and processes take part follows from the strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw.model import (
    CNN,
    CNN_BATCH,
    CNN_BYTES,
    Asked,
    Case,
    Clock,
    Device,
    DeviceSet,
    EnvironmentKey,
    Failure,
    GridError,
    LaunchId,
    Net,
    NotHereError,
    OwnProcesses,
    Protocol,
    Run,
    Spec,
    TrainingAnswer,
    TrainingRequest,
    TrainingStrategy,
    Workload,
)

from . import training_answers
from .step import check_sums_in_place

# Each rank is a process of its own.
_OF_PROCESSES = (TrainingStrategy.MULTI_WORKER_MIRRORED, TrainingStrategy.PARAMETER_SERVER)


@dataclass(frozen=True, kw_only=True)
class Training(Workload, OwnProcesses):
    """Plain gradient descent on a convolutional net, its gradient the payload."""

    kind = CNN
    own_strategies = tuple(strategy.value for strategy in TrainingStrategy)
    own_payload_bytes = CNN_BYTES

    @classmethod
    def check(cls, asked: Asked) -> None:
        """Raise GridError for what no step has."""
        check_sums_in_place(cls.kind, asked)

    def key_on(self, spec: Spec, key: EnvironmentKey) -> EnvironmentKey:
        """On as many ranks and processes as the strategy has of these devices."""
        strategy = TrainingStrategy(spec.strategy)
        if strategy is TrainingStrategy.ONE_DEVICE:
            return replace(key, ranks=1, mesh="", processes=1)
        if strategy in _OF_PROCESSES:
            return replace(key, processes=key.ranks)
        return key

    def case_on(self, spec: Spec, key: EnvironmentKey, found: DeviceSet, only: str) -> Case:
        """Raises NotHereError where there is no such strategy on these devices.

        Raises GridError where the ranks do not share a batch out evenly.
        """
        _check_device(TrainingStrategy(spec.strategy), found.device)
        if CNN_BATCH % key.ranks:
            raise GridError(
                f"{key.ranks} ranks do not share out the {CNN_BATCH} examples of a {self.kind} "
                "training step evenly; --ranks says how many to use"
            )
        program = f"{self.kind}-step-batch-{CNN_BATCH}"
        return Case(
            framework=spec.framework,
            payload_bytes=spec.payload_bytes,
            workload=self,
            strategy=spec.strategy,
            dtype=spec.dtype,
            ranks=key.ranks,
            mesh=key.mesh,
            protocol=Protocol(clock=Clock.HOST, program=program, allocator=found.allocator),
        )

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
        found = training_answers.checked(request, answers)
        if isinstance(found, Failure):
            return replace(found, launch=launch)
        return training_answers.run_of(case, found.run, launch)


def _check_device(strategy: TrainingStrategy, device: Device) -> None:
    """A TPU has a strategy of its own; servers and their workers are measured on CPUs alone."""
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
