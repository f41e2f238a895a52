"""Proof from TensorFlow's graphs that the strategy's own all-reduce is what runs.

The graph that was executed, after TensorFlow's optimiser and cut up by device, is recorded
while the program runs for the first time; a TPU's program is compiled out of sight, so there
the traced graph must do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from busbw.collectives import DTYPES
from busbw.model import Case, Clock, FailureKind, Proof

from ..base import MeasuringError


@dataclass(frozen=True)
class _Algorithm:
    """What the graph must hold: an op for each rank, or at least one; its hint, if it has one."""

    op: str
    each_rank: bool
    hint: str = ""


_ALGORITHMS = {
    "ring": _Algorithm(op="CollectiveReduceV2", each_rank=True, hint="ring"),
    "collective_nccl": _Algorithm(op="CollectiveReduceV2", each_rank=True, hint="nccl"),
    "nccl": _Algorithm(op="NcclAllReduce", each_rank=True),
    "reduction_to_one_device": _Algorithm(op="AddN", each_rank=False),
    "hierarchical_copy": _Algorithm(op="AddN", each_rank=False),
    "tpu": _Algorithm(op="CrossReplicaSum", each_rank=False),
}
_REDUCING_OPS = {algorithm.op for algorithm in _ALGORITHMS.values()} | {"CollectiveReduceV3"}
_LOOP = "while/"


def executed_graphs(first_call: Callable[[], None]) -> list[Any]:
    """The graphs, one per device, that TensorFlow executed in `first_call`."""
    from tensorflow.python.eager import context

    eager = context.context()
    eager.enable_run_metadata()
    try:
        # Graphs that TensorFlow made since it was last asked are in there, too: not ours.
        eager.export_run_metadata()
        first_call()
        return list(eager.export_run_metadata().partition_graphs)
    finally:
        eager.disable_run_metadata()


def prove(case: Case, executed: Sequence[Any], traced: Any) -> Proof:
    """The strategy's own op, in the number, the loop, the group and with the hint it must have."""
    compiled_away = case.strategy == "tpu" or not executed
    graphs = [traced.as_graph_def()] if compiled_away else executed
    nodes = [node for graph in graphs for node in nodes_of(graph)]
    found = [node for node in nodes if node.op in _REDUCING_OPS]
    _check_kinds(case, found)
    _check_bytes(case, traced)
    if not compiled_away:
        _check_loop(case, found)
        _check_groups(case, found, nodes)
    return Proof(
        collectives=dict(Counter(node.op for node in found)),
        payload_copies=0,
        algorithm=case.strategy,
        array_bytes=case.payload_bytes,
        groups=case.groups,
        read_from="traced graph" if compiled_away else "executed graph",
    )


def _check_kinds(case: Case, found: Sequence[Any]) -> None:
    algorithm = _ALGORITHMS[case.strategy]
    kinds = dict(Counter(node.op for node in found))
    hints = {node.attr["communication_hint"].s.decode() for node in found}
    wanted = case.ranks if algorithm.each_rank else max(1, kinds.get(algorithm.op, 0))
    right_type = all(_element_bytes(node) == DTYPES[case.dtype].size_bytes for node in found)
    right_hint = not algorithm.hint or hints == {algorithm.hint}
    if kinds == {algorithm.op: wanted} and right_hint and right_type:
        return
    hinted = f" (hint {', '.join(sorted(hints))})" if algorithm.hint else ""
    raise _not_it(
        f"{case.strategy} is {wanted} x {algorithm.op}, for {case.dtype} TensorFlow put "
        f"{kinds or 'no reduction'}{hinted} into the graph"
    )


def _check_bytes(case: Case, traced: Any) -> None:
    """Every reduction is of the whole payload, as far as its shape was known when it was traced.

    What is executed no longer says shapes, and TensorFlow's optimiser leaves them as they are.
    """
    nodes = nodes_of(traced.as_graph_def(add_shapes=True))
    for node in (node for node in nodes if node.op in _REDUCING_OPS):
        for shape in map(tf.TensorShape, node.attr["_output_shapes"].list.shape):
            size = (shape.num_elements() or 0) * _element_bytes(node)
            if shape.is_fully_defined() and size != case.payload_bytes:
                raise _not_it(f"{node.name} is of {size} bytes, expected {case.payload_bytes}")


def _element_bytes(node: Any) -> int:
    return int(tf.dtypes.as_dtype(node.attr["T"].type).size)


def _check_loop(case: Case, found: Sequence[Any]) -> None:
    outside = [node.name for node in found if not node.name.startswith(_LOOP)]
    if outside and case.clock is not Clock.DISPATCH:
        raise _not_it(f"TensorFlow took the reduction out of the loop: {outside[0]}")


def _check_groups(case: Case, found: Sequence[Any], nodes: Sequence[Any]) -> None:
    if not _ALGORITHMS[case.strategy].each_rank:
        return
    devices = {node.device for node in found}
    if len(devices) != case.ranks:
        raise MeasuringError(
            FailureKind.WRONG_WORLD,
            f"{len(devices)} devices take part, expected {case.ranks}: {sorted(devices)}",
        )
    constants = {node.name: node for node in nodes if node.op == "Const"}
    for node in found:
        size = constants.get(node.input[1]) if node.op == "CollectiveReduceV2" else None
        ranks = int(tf.make_ndarray(size.attr["value"].tensor)) if size is not None else case.ranks
        if ranks != case.ranks:
            raise _not_it(f"{node.name} is over {ranks} ranks, expected {case.ranks}")


def nodes_of(graph: Any) -> list[Any]:
    """Every node of a graph and of the functions that it calls."""
    nodes = list(graph.node)
    for function in graph.library.function:
        nodes += function.node_def
    return nodes


def _not_it(message: str) -> MeasuringError:
    return MeasuringError(FailureKind.NOT_A_COLLECTIVE, message)
