"""Proof from TensorFlow's graphs of one training step that the strategy adds up all gradients.

Which operations there are is read from the graph that was executed, how many bytes they add up
from the traced one: the other has no shapes. A TPU's program is compiled out of sight, so there
the traced graph must do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from busbw.model import FailureKind, StrategyTraining, TrainingStrategy

from .base import MeasuringError
from .convolutional import GRADIENT_BYTES
from .tensorflow_proof import nodes_of

_COLLECTIVE = "CollectiveReduceV2"
_ADDITION = "AddN"
_TPU = "CrossReplicaSum"
_KINDS = {
    TrainingStrategy.MIRRORED: _COLLECTIVE,
    TrainingStrategy.MULTI_WORKER_MIRRORED: _COLLECTIVE,
    TrainingStrategy.CENTRAL_STORAGE: _ADDITION,
    TrainingStrategy.TPU: _TPU,
}
_REDUCING = {*_KINDS.values(), "CollectiveReduceV3", "NcclAllReduce"}


@dataclass(frozen=True, kw_only=True)
class Reductions:
    """Operations by kind, on all ranks of this process, and the bytes that one rank hands over."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    reduced_bytes: int | None = None


def found(
    training: StrategyTraining, replicas: int, executed: Sequence[Any], traced: Any
) -> Reductions:
    """What adds up the gradients of the step, `replicas` of whose ranks are in this process.

    Raises MeasuringError NOT_A_COLLECTIVE where that is not the whole gradient over all ranks.
    """
    wanted = _KINDS.get(training.strategy)
    if wanted is None:
        return Reductions()
    if wanted == _TPU:
        nodes = [node for node in nodes_of(traced.as_graph_def()) if node.op in _REDUCING]
        _check_kinds(training, nodes, wanted)
        return Reductions(kinds=_counted(nodes))
    everything = [node for graph in executed for node in nodes_of(graph)]
    nodes = [node for node in everything if node.op in _REDUCING]
    _check_kinds(training, nodes, wanted)
    given = _bytes(traced, wanted)
    if wanted == _COLLECTIVE:
        _check_devices(training, {node.device for node in nodes}, replicas)
        _check_groups(training, nodes, everything)
        _check_bytes(training, given.values(), replicas)
    else:
        _check_terms(training, nodes)
        _check_bytes(training, [sum(given.values())], 1)
    return Reductions(kinds=_counted(nodes), reduced_bytes=GRADIENT_BYTES)


def _counted(nodes: Sequence[Any]) -> dict[str, int]:
    return dict(Counter(node.op for node in nodes))


def _check_kinds(training: StrategyTraining, nodes: Sequence[Any], wanted: str) -> None:
    if set(_counted(nodes)) != {wanted}:
        raise _not_it(
            f"{training.strategy.value} adds up gradients by {wanted}, TensorFlow put "
            f"{_counted(nodes) or 'no reduction'} into the graph"
        )


def _check_devices(training: StrategyTraining, devices: set[str], replicas: int) -> None:
    if len(devices) != replicas:
        raise _not_it(
            f"gradients of {training.strategy.value} are reduced on {len(devices)} devices of this "
            f"process, expected {replicas}: {sorted(devices)}"
        )


def _check_groups(
    training: StrategyTraining, nodes: Sequence[Any], everything: Sequence[Any]
) -> None:
    constants = {node.name: node for node in everything if node.op == "Const"}
    for node in nodes:
        size = constants.get(node.input[1])
        ranks = int(tf.make_ndarray(size.attr["value"].tensor)) if size is not None else None
        if ranks != training.ranks:
            raise _not_it(f"{node.name} is over {ranks} ranks, expected {training.ranks}")


def _check_terms(training: StrategyTraining, nodes: Sequence[Any]) -> None:
    for node in nodes:
        if node.attr["N"].i != training.ranks:
            raise _not_it(f"{node.name} adds up {node.attr['N'].i} terms, not {training.ranks}")


def _check_bytes(training: StrategyTraining, given: Any, replicas: int) -> None:
    sizes = list(given)
    if sizes != [GRADIENT_BYTES] * replicas:
        raise _not_it(
            f"{training.strategy.value} adds up {sizes} bytes of gradients, expected "
            f"{GRADIENT_BYTES} of each rank"
        )


def _bytes(traced: Any, kind: str) -> dict[str, int]:
    """What is handed to reductions, by device."""
    sizes: Counter[str] = Counter()
    for operation in traced.get_operations():
        if operation.type == kind:
            tensor = operation.inputs[0]
            sizes[operation.device] += tensor.shape.num_elements() * tensor.dtype.size
    return dict(sizes)


def _not_it(message: str) -> MeasuringError:
    return MeasuringError(FailureKind.NOT_A_COLLECTIVE, message)
