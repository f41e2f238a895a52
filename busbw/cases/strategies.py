"""The grid of training under the strategies of `tf.distribute`, and what each is on a machine.

Such a step is a Spec like any other: of the all-reduce of its gradient, with the step named. How
many ranks and processes take part follows from the strategy. Pure: values in, values out.
"""

from __future__ import annotations

from dataclasses import replace

from busbw.model import (
    CNN,
    CNN_BATCH,
    CNN_BYTES,
    Case,
    Clock,
    Device,
    DeviceSet,
    EnvironmentKey,
    Protocol,
    Spec,
    TrainingStrategy,
)

from .grid import Asked, GridError

TRAINING_STRATEGIES = tuple(strategy.value for strategy in TrainingStrategy)

# Each rank is a process of its own.
_OF_PROCESSES = (TrainingStrategy.MULTI_WORKER_MIRRORED, TrainingStrategy.PARAMETER_SERVER)


class NotHereError(GridError):
    """What the grid has for other machines than this one: no mistake, and nothing to measure."""


def strategy_specs(frameworks: tuple[str, ...], asked: Asked) -> tuple[Spec, ...]:
    """One Spec a strategy that is asked for, of each framework; by default all of them.

    None on a mesh: these strategies know ranks in a line alone.
    """
    if asked.mesh:
        return ()
    usual = asked.strategies == ("default",)
    words = TRAINING_STRATEGIES if usual else asked.strategies
    names = [name for name in words if name in TRAINING_STRATEGIES]
    return tuple(
        Spec(
            framework=framework,
            payload_bytes=CNN_BYTES,
            strategy=name,
            ranks=asked.ranks,
            step=CNN,
        )
        for framework in frameworks
        for name in names
    )


def key_under(strategy: TrainingStrategy, key: EnvironmentKey) -> EnvironmentKey:
    """The Environment key of training on the devices of `key`."""
    if strategy is TrainingStrategy.ONE_DEVICE:
        return replace(key, ranks=1, mesh="", processes=1)
    if strategy in _OF_PROCESSES:
        return replace(key, processes=key.ranks)
    return key


def case_under(spec: Spec, key: EnvironmentKey, found: DeviceSet) -> Case:
    """The Case of training under the strategy of `spec` on the devices of `key`.

    Raises NotHereError where there is no such strategy on them, GridError where the ranks do not
    share a batch out evenly.
    """
    strategy = TrainingStrategy(spec.strategy)
    _check_device(strategy, found.device)
    if CNN_BATCH % key.ranks:
        raise GridError(
            f"{key.ranks} ranks do not share out the {CNN_BATCH} examples of a {CNN} training "
            "step evenly; --ranks says how many to use"
        )
    return Case(
        framework=spec.framework,
        payload_bytes=spec.payload_bytes,
        collective=spec.collective,
        strategy=spec.strategy,
        dtype=spec.dtype,
        reduce_op=spec.reduce_op,
        ranks=key.ranks,
        mesh=key.mesh,
        placement=spec.placement,
        protocol=Protocol(
            clock=Clock.HOST,
            program=f"{CNN}-step-batch-{CNN_BATCH}",
            allocator=found.allocator,
        ),
        step=CNN,
    )


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
