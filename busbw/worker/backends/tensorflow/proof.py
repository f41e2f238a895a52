"""Proof from TensorFlow's graphs that the strategy's own reduction is what runs.

The graph that was executed, after TensorFlow's optimiser and cut up by device, is recorded while
the program runs for the first time. It has no shapes: the number of bytes comes from the traced
graph. A TPU's program is compiled elsewhere, so for TPUs only the traced graph is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from busbw.collectives.base import DTYPES
from busbw.model.case import Case
from busbw.model.launch import Proof
from busbw.model.words import Clock

from ..base import not_a_collective, wrong_world

_COLLECTIVE = "CollectiveReduceV2"
_ADDITION = "AddN"
_TPU = "CrossReplicaSum"
_NCCL = "NcclAllReduce"


@dataclass(frozen=True)
class _Algorithm:
    """What the graph must hold: an op for each rank, or at least one; its hint, if it has one."""

    op: str
    each_rank: bool
    hint: str = ""


_ALGORITHMS = {
    "ring": _Algorithm(op=_COLLECTIVE, each_rank=True, hint="ring"),
    "collective_nccl": _Algorithm(op=_COLLECTIVE, each_rank=True, hint="nccl"),
    "nccl": _Algorithm(op=_NCCL, each_rank=True),
    "reduction_to_one_device": _Algorithm(op=_ADDITION, each_rank=False),
    "hierarchical_copy": _Algorithm(op=_ADDITION, each_rank=False),
    "tpu": _Algorithm(op=_TPU, each_rank=False),
}
_REDUCING_OPS = {_COLLECTIVE, _ADDITION, _TPU, _NCCL, "CollectiveReduceV3"}
_LOOP = "while/"


def executed_graphs(first_call: Callable[[], None]) -> list[Any]:
    from tensorflow.python.eager import context

    eager = context.context()
    eager.enable_run_metadata()
    try:
        # Graphs that TensorFlow made since the last recording are in there, too: not ours.
        eager.export_run_metadata()
        first_call()
        return list(eager.export_run_metadata().partition_graphs)
    finally:
        eager.disable_run_metadata()


def prove(case: Case, executed: Sequence[Any], traced: Any, own: int | None = None) -> Proof:
    """`own` is how many of the ranks are in this process, whose graphs these are; None for all."""
    own = case.ranks if own is None else own
    compiled_away = case.strategy == "tpu" or not executed
    graphs = [traced.as_graph_def()] if compiled_away else executed
    nodes, found = _reducing(graphs)
    _check_kinds(case, found, own)
    _check_bytes(case, traced)
    if not compiled_away:
        outside = [node.name for node in found if not node.name.startswith(_LOOP)]
        if outside and case.clock is not Clock.DISPATCH:
            raise not_a_collective(f"TensorFlow took the reduction out of the loop: {outside[0]}")
        _check_groups(case, found, nodes, own)
    return Proof(
        collectives=dict(Counter(node.op for node in found)),
        payload_copies=0,
        algorithm=case.strategy,
        array_bytes=case.payload_bytes,
        groups=case.groups,
        read_from="traced graph" if compiled_away else "executed graph",
    )


def reducing_nodes(executed: Sequence[Any]) -> dict[str, str]:
    """Return the names of the reducing nodes of executed graphs, in the order of their devices."""
    _, nodes = _reducing(executed)
    # By length first, so that device 2 comes before device 10.
    nodes.sort(key=lambda node: (len(node.device), node.device))
    return {node.name: node.name for node in nodes}


def _check_kinds(case: Case, found: Sequence[Any], own: int) -> None:
    algorithm = _ALGORITHMS[case.strategy]
    kinds = dict(Counter(node.op for node in found))
    hints = {node.attr["communication_hint"].s.decode() for node in found}
    wanted = own if algorithm.each_rank else max(1, kinds.get(algorithm.op, 0))
    right_type = all(_element_bytes(node) == DTYPES[case.dtype].size_bytes for node in found)
    right_hint = not algorithm.hint or hints == {algorithm.hint}
    if kinds == {algorithm.op: wanted} and right_hint and right_type:
        return
    hinted = f" (hint {', '.join(sorted(hints))})" if algorithm.hint else ""
    raise not_a_collective(
        f"{case.strategy} is {wanted} x {algorithm.op}, for {case.dtype} TensorFlow put "
        f"{kinds or 'no reduction'}{hinted} into the graph"
    )


def _check_bytes(case: Case, traced: Any) -> None:
    """By the traced graph: the executed one has no shapes, and the optimiser changes none."""
    _, found = _reducing([traced.as_graph_def(add_shapes=True)])
    for node in found:
        for shape in map(tf.TensorShape, node.attr["_output_shapes"].list.shape):
            size = (shape.num_elements() or 0) * _element_bytes(node)
            if shape.is_fully_defined() and size != case.payload_bytes:
                raise not_a_collective(
                    f"{node.name} is of {size} bytes, expected {case.payload_bytes}"
                )


def _element_bytes(node: Any) -> int:
    return int(tf.dtypes.as_dtype(node.attr["T"].type).size)


def _check_groups(case: Case, found: Sequence[Any], nodes: Sequence[Any], own: int) -> None:
    if not _ALGORITHMS[case.strategy].each_rank:
        return
    devices = {node.device for node in found}
    if len(devices) != own:
        raise wrong_world(
            f"{len(devices)} devices take part, expected {own}: {', '.join(sorted(devices))}"
        )
    for name, ranks in _group_sizes(found, nodes):
        if ranks not in (None, case.ranks):
            raise not_a_collective(f"{name} is over {ranks} ranks, expected {case.ranks}")


def _group_sizes(found: Sequence[Any], nodes: Sequence[Any]) -> Iterator[tuple[str, int | None]]:
    """Each reduction's name, and over how many ranks it is; None where no constant says that."""
    constants = {node.name: node for node in nodes if node.op == "Const"}
    for node in found:
        size = constants.get(node.input[1]) if node.op == _COLLECTIVE else None
        yield (
            node.name,
            int(tf.make_ndarray(size.attr["value"].tensor)) if size is not None else None,
        )


def _reducing(graphs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    nodes = []
    for graph in graphs:
        nodes += graph.node
        for function in graph.library.function:
            nodes += function.node_def
    return nodes, [node for node in nodes if node.op in _REDUCING_OPS]
