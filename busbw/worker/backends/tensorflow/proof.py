"""Proves from TensorFlow's graphs that a program runs the reduction of its strategy.

A graph has nodes, which are operations. TensorFlow makes the traced graph from the program, and an
executed graph for each device by optimizing the traced graph. The executed graphs are recorded
during the first call. Executed graphs have no shapes, so sizes are read from the traced graph. The
program of a TPU is compiled by the TPU's compiler, so for TPUs only the traced graph is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from busbw.collectives.base import DTYPES
from busbw.model.case import Case
from busbw.model.launch import Proof
from busbw.model.words import Clock

from ..base import not_a_collective, wrong_world

# The operations of TensorFlow's graphs that reduce.
_COLLECTIVE = "CollectiveReduceV2"
_ADDITION = "AddN"
_TPU = "CrossReplicaSum"
_NCCL = "NcclAllReduce"


# The reduction that the graph must contain, by strategy: the operation, and the value of its
# attribute `communication_hint`, empty if the operation has no such attribute.
_EXPECTED_REDUCTIONS = {
    "ring": (_COLLECTIVE, "ring"),
    "collective_nccl": (_COLLECTIVE, "nccl"),
    "nccl": (_NCCL, ""),
    "reduction_to_one_device": (_ADDITION, ""),
    "hierarchical_copy": (_ADDITION, ""),
    "tpu": (_TPU, ""),
}
# The graphs must have a node with such an operation for each rank. A single node is enough for the
# other operations.
_OPS_ON_EACH_RANK = (_COLLECTIVE, _NCCL)
_REDUCING_OPS = {_COLLECTIVE, _ADDITION, _TPU, _NCCL, "CollectiveReduceV3"}
_LOOP_PREFIX = "while/"


def record_executed_graphs(first_call: Callable[[], None]) -> list[tf.compat.v1.GraphDef]:
    """Call a program for the first time, and return the graphs that TensorFlow executed.

    `first_call` is a function that makes the call. The list is empty if TensorFlow recorded no
    graph.
    """
    from tensorflow.python.eager import context

    eager = context.context()
    eager.enable_run_metadata()
    try:
        # This export only removes the graphs that TensorFlow executed earlier.
        eager.export_run_metadata()
        first_call()
        return list(eager.export_run_metadata().partition_graphs)
    finally:
        eager.disable_run_metadata()


def prove(
    case: Case,
    executed_graphs: Sequence[tf.compat.v1.GraphDef],
    traced_graph: tf.Graph,
    local_ranks: int,
) -> Proof:
    """Check that the program of a case reduces by the strategy of the case, and return the proof.

    Args:
        case: the case.
        executed_graphs: the optimized graphs that TensorFlow executed in this process; empty if
            TensorFlow recorded no such graph.
        traced_graph: the graph of the program before TensorFlow's optimizations.
        local_ranks: the number of ranks in this process.

    Raises:
        MeasuringError: NOT_A_COLLECTIVE if the graphs do not have the reductions of the strategy,
            and WRONG_WORLD if the reductions are on a wrong number of devices.

    """
    is_traced_only = case.strategy == "tpu" or not executed_graphs
    graphs = [traced_graph.as_graph_def()] if is_traced_only else executed_graphs
    nodes, reductions = _nodes_and_reductions(graphs)
    _check_operations(case, reductions, local_ranks)
    _check_payload_bytes(case, traced_graph)
    if not is_traced_only:
        outside = [node.name for node in reductions if not node.name.startswith(_LOOP_PREFIX)]
        if outside and case.clock is not Clock.DISPATCH:
            raise not_a_collective(f"TensorFlow took the reduction out of the loop: {outside[0]}")
        _check_device_and_rank_counts(case, reductions, nodes, local_ranks)
    return Proof(
        collectives=dict(Counter(node.op for node in reductions)),
        payload_copies=0,
        algorithm=case.strategy,
        array_bytes=case.payload_bytes,
        groups=case.rank_groups,
        read_from="traced graph" if is_traced_only else "executed graph",
    )


def map_reductions_to_themselves(
    executed_graphs: Sequence[tf.compat.v1.GraphDef],
) -> dict[str, str]:
    """Map the name of each node that reduces to itself, in the order of the nodes' devices.

    The result is for `Program.end_by_begin_instruction`, which maps the instruction that begins a
    collective to the instruction that ends it. In TensorFlow a single node does both.
    """
    _, nodes = _nodes_and_reductions(executed_graphs)
    # Device 2 comes before device 10 because its name is shorter.
    nodes.sort(key=lambda node: (len(node.device), node.device))
    return {node.name: node.name for node in nodes}


def _check_operations(case: Case, reductions: Sequence[Any], local_ranks: int) -> None:
    """Raise MeasuringError NOT_A_COLLECTIVE if `reductions` do not fit the strategy of a case.

    `reductions` are the nodes of the graphs that reduce. The operation of the nodes, their number,
    their attribute `communication_hint` and the size of their elements must be right. `local_ranks`
    is the number of ranks in this process.
    """
    operation, expected_hint = _EXPECTED_REDUCTIONS[case.strategy]
    kinds = dict(Counter(node.op for node in reductions))
    hints = {node.attr["communication_hint"].s.decode() for node in reductions}
    count = local_ranks if operation in _OPS_ON_EACH_RANK else max(1, kinds.get(operation, 0))
    has_type = all(_element_bytes(node) == DTYPES[case.dtype].size_bytes for node in reductions)
    has_hint = not expected_hint or hints == {expected_hint}
    if kinds == {operation: count} and has_hint and has_type:
        return
    hint_text = f" (hint {', '.join(sorted(hints))})" if expected_hint else ""
    raise not_a_collective(
        f"{case.strategy} is {count} x {operation}, for {case.dtype} TensorFlow put "
        f"{kinds or 'no reduction'}{hint_text} into the graph"
    )


def _check_payload_bytes(case: Case, traced_graph: tf.Graph) -> None:
    """Raise MeasuringError NOT_A_COLLECTIVE if a reduction does not have the size of the payload.

    The sizes are read from `traced_graph`, the graph before TensorFlow's optimizations. The graphs
    that TensorFlow executes have the same sizes, because the optimizations change no shape.
    """
    _, reductions = _nodes_and_reductions([traced_graph.as_graph_def(add_shapes=True)])
    for node in reductions:
        for shape in map(tf.TensorShape, node.attr["_output_shapes"].list.shape):
            size = (shape.num_elements() or 0) * _element_bytes(node)
            if shape.is_fully_defined() and size != case.payload_bytes:
                raise not_a_collective(
                    f"{node.name} is of {size} bytes, expected {case.payload_bytes}"
                )


def _element_bytes(node: Any) -> int:
    """Return the size in bytes of an element of the values that a node of a graph reduces."""
    return int(tf.dtypes.as_dtype(node.attr["T"].type).size)


def _check_device_and_rank_counts(
    case: Case, reductions: Sequence[Any], nodes: Sequence[Any], local_ranks: int
) -> None:
    """Raise MeasuringError if the number of devices, or of ranks in a group, is wrong.

    The numbers are checked only for strategies whose graphs have a reduction on each rank.

    Args:
        case: the case.
        reductions: the nodes that reduce.
        nodes: all nodes of the executed graphs of this process.
        local_ranks: the number of ranks in this process.

    Raises:
        MeasuringError: WRONG_WORLD for a wrong number of devices, NOT_A_COLLECTIVE for a group with
            a wrong number of ranks.

    """
    operation, _ = _EXPECTED_REDUCTIONS[case.strategy]
    if operation not in _OPS_ON_EACH_RANK:
        return
    devices = {node.device for node in reductions}
    if len(devices) != local_ranks:
        raise wrong_world(
            f"{len(devices)} devices take part, expected {local_ranks}: "
            f"{', '.join(sorted(devices))}"
        )
    constants = {node.name: node for node in nodes if node.op == "Const"}
    for node in reductions:
        # A number of ranks that is not a constant in the graphs is not checked.
        if node.op != _COLLECTIVE or node.input[1] not in constants:
            continue
        ranks = int(tf.make_ndarray(constants[node.input[1]].attr["value"].tensor))
        if ranks != case.ranks:
            raise not_a_collective(f"{node.name} is over {ranks} ranks, expected {case.ranks}")


def _nodes_and_reductions(
    graphs: Sequence[tf.compat.v1.GraphDef],
) -> tuple[list[Any], list[Any]]:
    """Return two lists: all nodes of the graphs, and those of the nodes that reduce.

    The nodes of functions that the graphs define are included.
    """
    nodes = []
    for graph in graphs:
        nodes += graph.node
        for function in graph.library.function:
            nodes += function.node_def
    return nodes, [node for node in nodes if node.op in _REDUCING_OPS]
