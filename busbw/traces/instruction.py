"""The text of an HLO instruction, as profilers note it at an event: operation, shapes, groups.

A payload comes only from the shapes here or from NCCL's counts of elements, not from
`bytes_accessed`, which counts both what is read and what is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.collectives import COLLECTIVES

from .event import Stats

# Where profilers keep the text.
TEXTS = ("long_name", "long name", "hlo_text", "hlo_op", "hlo")
# `%all-reduce.3 = f32[4,1024]{1,0:T(8,128)} all-reduce(f32[4,1024]{1,0} %x), replica_groups=...`
_OP = re.compile(r"\s(?P<op>[a-z][a-z-]*)\(")
_INPUTS_END = re.compile(r"\)(?:,\s*[a-z_]+=|\s*$)")
_SHAPE = re.compile(r"\b(?P<dtype>pred|[a-z]+[0-9][a-z0-9]*)\[(?P<dimensions>[0-9,]*)\]")
_ARRAY = re.compile(r"\b\w+\[[0-9,]*\]")
# Beyond any rank's memory, and beyond any dimension of a shape.
_MOST_BYTES, _MOST_DIGITS = 10**15, 18
_DTYPE_BITS = re.compile(r"[a-z]+([0-9]+)")
_CALLED = re.compile(r"(?:to_apply|calls|called_computations)=\{?\s*([^,}\s]+)")
_OPERAND = re.compile(r"%([\w.\-]+)\s*$")
_NCCL_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("Char", "Byte", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
}


@dataclass(frozen=True)
class NotedInstruction:
    """Parts of an instruction's text.

    Outputs and inputs contain shapes; `attributes` is the text after these, such as the replica
    groups.
    """

    op: str
    outputs: str
    inputs: str
    attributes: str

    @property
    def called(self) -> tuple[str, ...]:
        return tuple(_CALLED.findall(self.attributes))

    @property
    def operand(self) -> str:
        match = _OPERAND.search(self.inputs)
        return match[1] if match else ""


def instruction_of(stats: Stats) -> NotedInstruction | None:
    """The instruction whose text is among the stats; None where there is no complete one."""
    for key in TEXTS:
        found = read(str(stats.get(key, "")))
        if found is not None:
            return found
    return None


def read(text: str) -> NotedInstruction | None:
    """Each part is searched once, from left to right: texts may be long."""
    begin = text.find("=") + 1
    op = _OP.search(text, begin) if begin else None
    end = _INPUTS_END.search(text, op.end()) if op else None
    if op is None or end is None:
        return None
    return NotedInstruction(
        op=op["op"],
        outputs=text[begin : op.start()],
        inputs=text[op.end() : end.start()],
        attributes=text[end.start() :],
    )


def payload_bytes(kind: str, found: NotedInstruction) -> int | None:
    """The larger of one rank's input and output, where the shapes say it; else None.

    What starts a collective has buffers of its own among its outputs, what ends one has them among
    its inputs, and what gives data to one that was started names that next to the result. A fusion
    that takes or gives several arrays does not say which is the collective's.
    """
    one = COLLECTIVES.get(kind)
    takes = one is not None and one.input_blocks(2) >= one.output_blocks(2)
    gives = one is not None and one.output_blocks(2) >= one.input_blocks(2)
    if found.op == "fusion":
        arrays = found.inputs if takes and not gives else found.outputs
        return _possible(_bytes(arrays)) if len(_SHAPE.findall(arrays)) == 1 else None
    if found.op.endswith("-update"):
        return _possible(max(map(_bytes, _ARRAY.findall(found.outputs)), default=0))
    if found.op.endswith("-done"):
        return _possible(_bytes(found.outputs)) if gives else None
    taken, started = _bytes(found.inputs), found.op.endswith("-start")
    if takes and gives:
        return _possible(taken or (0 if started else _bytes(found.outputs)))
    if takes:
        return _possible(taken)
    return None if started else _possible(_bytes(found.outputs))


def nccl_bytes(stats: Stats) -> int | None:
    """The larger of what NCCL notes of one rank's input and output; None where it does not."""
    size = _NCCL_BYTES.get(str(stats.get("dtype", "")))
    counts = [stats.get("In msg nelems"), stats.get("Out msg nelems")]
    known = [count for count in counts if isinstance(count, int)]
    return _possible(max(known) * size) if size and known else None


def _possible(count: int) -> int | None:
    """None instead of more bytes than any rank has."""
    return count if 0 < count <= _MOST_BYTES else None


def _bytes(shapes: str) -> int:
    total = 0
    for match in _SHAPE.finditer(shapes):
        bits = _DTYPE_BITS.match(match["dtype"])
        words = [bits[1] if bits else "8", *filter(None, match["dimensions"].split(","))]
        if max(map(len, words)) > _MOST_DIGITS:
            return _MOST_BYTES + 1
        bits_of_all = 1
        for count in map(int, words):
            # Capped beyond what any rank has.
            bits_of_all = min(bits_of_all * count, 16 * _MOST_BYTES)
        total += bits_of_all // 8
    return total
