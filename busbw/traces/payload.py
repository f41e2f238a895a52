"""What an event's stats say of a collective: its kind where the name does not, and its payload.

A payload is taken only from what says it: the shapes in the instruction's own text, or NCCL's
counts of elements. `bytes_accessed` is not it: it counts what is read and what is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from .names import ALL_REDUCE, ALL_TO_ALL, PERMUTE, REDUCE_SCATTER, naming

Stats = Mapping[str, str | int | float]

_TEXTS = ("long_name", "long name", "hlo_text", "hlo_op", "hlo")
# `%all-reduce.3 = f32[4,1024]{1,0:T(8,128)} all-reduce(f32[4,1024]{1,0} %x), replica_groups=...`
_INSTRUCTION = re.compile(
    r"=\s*(?P<outputs>.*?)\s(?P<op>[a-z][a-z-]*)\((?P<inputs>.*?)\)(?:,\s*[a-z_]+=|\s*$)", re.DOTALL
)
_SHAPE = re.compile(r"\b(?P<dtype>pred|[a-z]+\d+[a-z0-9]*)\[(?P<dimensions>[\d,]*)\]")
_DTYPE_BITS = re.compile(r"[a-z]+(\d+)")
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
    """The larger of one rank's input and output, where the stats say it; else None."""
    for key in _TEXTS:
        match = _INSTRUCTION.search(str(stats.get(key, "")))
        said = naming(match["op"]) if match else None
        if match and said and said.kind == kind:
            started = match["op"].endswith("-start")
            return _of_shapes(kind, match["inputs"], match["outputs"], started=started)
    return _of_nccl(stats)


def _of_shapes(kind: str, inputs: str, outputs: str, *, started: bool) -> int | None:
    """From an instruction's shapes; what starts one has buffers of its own among its outputs."""
    taken = _bytes(inputs)
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
        counts = [int(count) for count in match["dimensions"].split(",") if count]
        total += math.prod(counts) * (int(bits[1]) if bits else 8) // 8
    return total


def _of_nccl(stats: Stats) -> int | None:
    size = _NCCL_BYTES.get(str(stats.get("dtype", "")))
    counts = [stats.get("In msg nelems"), stats.get("Out msg nelems")]
    known = [count for count in counts if isinstance(count, int)]
    return max(known) * size if size and known and max(known) > 0 else None
