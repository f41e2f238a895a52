"""What an event's stats say of a collective: its kind where the name does not, and its payload.

A payload is taken only from what says it: the shapes in the instruction's own text, or NCCL's
counts of elements. `bytes_accessed` is not it: it counts what is read and what is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .names import ALL_REDUCE, ALL_TO_ALL, PERMUTE, REDUCE_SCATTER, naming

Stats = Mapping[str, str | int | float]

_TEXTS = ("long_name", "long name", "hlo_text", "hlo_op", "hlo")
# `%all-reduce.3 = f32[4,1024]{1,0:T(8,128)} all-reduce(f32[4,1024]{1,0} %x), replica_groups=...`
_OP = re.compile(r"\s(?P<op>[a-z][a-z-]*)\(")
_INPUTS_END = re.compile(r"\)(?:,\s*[a-z_]+=|\s*$)")
_SHAPE = re.compile(r"\b(?P<dtype>pred|[a-z]+[0-9][a-z0-9]*)\[(?P<dimensions>[0-9,]*)\]")
# No rank has so many, and no shape so many digits.
_MOST_BYTES, _MOST_DIGITS = 10**15, 18
_DTYPE_BITS = re.compile(r"[a-z]+([0-9]+)")
_CALLED = re.compile(r"(?:to_apply|calls|called_computations)=\{?\s*([^,}\s]+)")
_NCCL_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("Char", "Byte", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
}


def kind_of_stats(stats: Stats) -> str:
    """The kind of collective that the stats say the event belongs to; "" if they say of none."""
    texts = [str(stats.get("hlo_category", "")), str(stats.get("hlo_op", ""))]
    texts.append(str(stats.get("tf_op", "")).rstrip(":").rsplit("/", 1)[-1])
    texts += [called for key in _TEXTS for called in _CALLED.findall(str(stats.get(key, "")))]
    for text in texts:
        for word in text.split():
            said = naming(word)
            if said and said.kind:
                return said.kind
    return ""


def payload_bytes(kind: str, stats: Stats) -> int | None:
    """The larger of one rank's input and output, where the stats say it; else None.

    More than any rank has is not said.
    """
    for key in _TEXTS:
        found = _instruction(str(stats.get(key, "")))
        said = naming(found.op) if found else None
        if found and said and said.kind == kind:
            return _possible(_of_shapes(kind, found))
    return _possible(_of_nccl(stats))


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 < count <= _MOST_BYTES else None


@dataclass(frozen=True)
class _Instruction:
    """Parts of an instruction's text; shapes stand in its outputs and inputs."""

    op: str
    outputs: str
    inputs: str


def _instruction(text: str) -> _Instruction | None:
    """Each part is looked for once and from left to right, however long the text is."""
    begin = text.find("=") + 1
    op = _OP.search(text, begin) if begin else None
    end = _INPUTS_END.search(text, op.end()) if op else None
    if op is None or end is None:
        return None
    return _Instruction(op["op"], text[begin : op.start()], text[op.end() : end.start()])


def _of_shapes(kind: str, found: _Instruction) -> int | None:
    """From an instruction's shapes; what starts one has buffers of its own among its outputs."""
    started = found.op.endswith("-start")
    taken, outputs = _bytes(found.inputs), found.outputs
    if kind in (ALL_REDUCE, PERMUTE, ALL_TO_ALL):
        return taken or (_bytes(outputs) if not started else None) or None
    if kind == REDUCE_SCATTER:
        return taken or None
    return None if started else _bytes(outputs) or None


def _bytes(shapes: str) -> int:
    """Bytes of all arrays whose shapes stand in the text."""
    total = 0
    for match in _SHAPE.finditer(shapes):
        bits = _DTYPE_BITS.match(match["dtype"])
        words = [bits[1] if bits else "8", *filter(None, match["dimensions"].split(","))]
        if max(map(len, words)) > _MOST_DIGITS:
            return _MOST_BYTES + 1
        total += _product(map(int, words)) // 8
    return total


def _product(counts: Iterable[int]) -> int:
    """It stops growing beyond what any rank has."""
    product = 1
    for count in counts:
        product = min(product * count, 16 * _MOST_BYTES)
    return product


def _of_nccl(stats: Stats) -> int | None:
    size = _NCCL_BYTES.get(str(stats.get("dtype", "")))
    counts = [stats.get("In msg nelems"), stats.get("Out msg nelems")]
    known = [count for count in counts if isinstance(count, int)]
    return max(known) * size if size and known and max(known) > 0 else None
