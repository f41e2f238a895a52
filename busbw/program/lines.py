"""What a single instruction runs, as a Use: its kind, bytes, groups, and place in the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from busbw.collectives import COLLECTIVES
from busbw.model.program import Use

from . import frames
from .arrays import MOST, arrays_of
from .axes import Axes
from .counts import Count, Counts, merge
from .hlo import Instruction, Module, algorithm_of

_KINDS = {one.hlo: one.name for one in COLLECTIVES.values()}
_REDUCE_OPS = {"add": "sum", "maximum": "max", "minimum": "min"}

# How many operands are searched for a source.
_MOST_OPERANDS = 64


@dataclass(frozen=True)
class Lines:
    """Describes instructions of `module`."""

    module: Module
    axes: Axes
    frames: frames.Frames

    def collective(self, line: Instruction) -> Counts:
        """Return a collective by itself, which runs once. Raises UnknownRanksError."""
        ranks, groups, axes = self.axes.of(line.text)
        arrays = arrays_of(line)
        whole = ranks if line.collective == "reduce-scatter" else 1
        sizes = tuple(min(size * whole, MOST) for _, size in arrays)
        # What an all-to-all gives is one buffer, cut up for each rank.
        parts = sizes if len(sizes) > 1 and line.collective != "all-to-all" else ()
        use = Use(
            kind=_KINDS.get(line.collective, line.collective),
            dtype="+".join(sorted({name for name, _ in arrays})),
            payload_bytes=min(sum(sizes), MOST),
            ranks=ranks,
            groups=groups,
            axes=axes,
            reduce_op=self._reduce_op(line),
            parts=parts,
            algorithm=algorithm_of([line]),
            source=self.frames.source_of(line.text),
        )
        return {use: Count(1, op_name=frames.op_name_of(line.text))}

    def called(self, line: Instruction, counts: Counts, *, is_scattered: bool = False) -> Counts:
        """Return what the computation that `line` calls runs.

        Collectives without a source, name or algorithm have those of `line`; of a fusion that
        `is_scattered` an all-reduce is a reduce-scatter.
        """
        source, name = self.frames.source_of(line.text), frames.op_name_of(line.text)
        chosen = algorithm_of([line])
        found: Counts = {}
        for use, count in counts.items():
            kind = "reduce_scatter" if is_scattered and use.kind == "all_reduce" else use.kind
            described = replace(
                use,
                kind=kind,
                source=use.source or source,
                algorithm=use.algorithm or chosen,
            )
            merge(found, {described: count._replace(op_name=count.op_name or name)})
        return found

    def placed(
        self, by_name: Mapping[str, Instruction], line: Instruction, counts: Counts
    ) -> Counts:
        """Return `counts` with the source of the nearest operand where the compiler noted none."""
        if all(use.source for use in counts):
            return counts
        names, source = [*line.operands], ""
        while names and not source and len(names) < _MOST_OPERANDS:
            operand = by_name.get(names.pop(0))
            if operand is not None:
                source = self.frames.source_of(operand.text)
                names += operand.operands
        found: Counts = {}
        for use, count in counts.items():
            merge(found, {replace(use, source=use.source or source): count})
        return found

    def scatters(self, name: str) -> bool:
        """Return whether a fusion gives of its all-reduce only each rank's part."""
        lines = self.module.computations.get(name, ())
        summed = [line for line in lines if line.collective == "all-reduce"]
        if len(summed) != 1 or not any(line.op == "dynamic-slice" for line in lines):
            return False
        ranks, *_ = self.axes.of(summed[0].text)
        return sum(lines[-1].array_bytes) * ranks == sum(summed[0].array_bytes)

    def _reduce_op(self, line: Instruction) -> str:
        """Return what the computation that the collective applies does last."""
        applied = [one for name in line.called for one in self.module.computations.get(name, ())]
        return _REDUCE_OPS.get(applied[-1].op, applied[-1].op) if applied else ""
