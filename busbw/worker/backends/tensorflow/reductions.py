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

from busbw.model import FailureKind, TrainingRequest, TrainingStrategy

from ..base import MeasuringError
from ..nets import GRADIENT_BYTES
from .proof import nodes_of

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
    request: TrainingRequest, replicas: int, executed: Sequence[Any], traced: Any
) -> Reductions:
    """What adds up the gradients of the step, `replicas` of whose ranks are in this process.

    Raises MeasuringError NOT_A_COLLECTIVE where that is not the whole gradient over all ranks.
    """
    if request.strategy not in _KINDS:
        return Reductions()
    name, wanted = request.strategy.value, _KINDS[request.strategy]
    graphs = [traced.as_graph_def()] if wanted == _TPU else executed
    everything = [node for graph in graphs for node in nodes_of(graph)]
    nodes = [node for node in everything if node.op in _REDUCING]
    kinds = dict(Counter(node.op for node in nodes))
    _check(
        set(kinds) == {wanted},
        f"{name} adds up gradients by {wanted}, TensorFlow put "
        f"{kinds or 'no reduction'} into the graph",
    )
    if wanted == _TPU:
        return Reductions(kinds=kinds)
    sizes = _bytes(traced, wanted)
    if wanted == _COLLECTIVE:
        _check_collectives(request, replicas, nodes, everything)
    else:
        for node in nodes:
            terms = node.attr["N"].i
            _check(
                terms == request.ranks,
                f"{node.name} adds up {terms} terms, not {request.ranks}",
            )
        sizes, replicas = [sum(sizes)], 1
    _check(
        sizes == [GRADIENT_BYTES] * replicas,
        f"{name} adds up {sizes} bytes of gradients, expected {GRADIENT_BYTES} of each rank",
    )
    return Reductions(kinds=kinds, reduced_bytes=GRADIENT_BYTES)


def _check_collectives(
    request: TrainingRequest, replicas: int, nodes: Sequence[Any], everything: Sequence[Any]
) -> None:
    """On every device of this process, each over all ranks."""
    devices = {node.device for node in nodes}
    _check(
        len(devices) == replicas,
        f"gradients are reduced on {len(devices)} devices of this process, expected {replicas}: "
        f"{sorted(devices)}",
    )
    constants = {node.name: node for node in everything if node.op == "Const"}
    for node in nodes:
        size = constants.get(node.input[1])
        ranks = int(tf.make_ndarray(size.attr["value"].tensor)) if size is not None else None
        _check(
            ranks == request.ranks,
            f"{node.name} is over {ranks} ranks, expected {request.ranks}",
        )


def _bytes(traced: Any, kind: str) -> list[int]:
    """What is handed to reductions on each device."""
    sizes: Counter[str] = Counter()
    for operation in traced.get_operations():
        if operation.type == kind:
            tensor = operation.inputs[0]
            sizes[operation.device] += tensor.shape.num_elements() * tensor.dtype.size
    return list(sizes.values())


def _check(right: bool, message: str) -> None:
    if not right:
        raise MeasuringError(FailureKind.NOT_A_COLLECTIVE, message)
