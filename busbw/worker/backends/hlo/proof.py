"""Proof from a compiled program's text that it is the collective that was asked for.

In each round of the loop exactly the expected collectives, of the payload's bytes, over the
expected ranks, and none anywhere else; and nothing else that reads or writes the payload.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, AbstractCollective, groups_of, pairs_of
from busbw.model.case import Case
from busbw.model.launch import Proof
from busbw.model.words import Clock, Device, FailureKind, Placement
from busbw.program.hlo import COLLECTIVES as KINDS
from busbw.program.hlo import Instruction, Module, algorithm_of, read

from ..base import MeasuringError, not_a_collective

# Characters of an instruction, and of what is said of it in a sentence.
_SHOWN, _SHOWN_FIRST = 300, 100
_ELEMENT = re.compile(r"([a-z]+\d+)\[")

# Operations that start a collective which is waited for later, alone or within a computation.
_WRAPPERS = {"call-start", "async-start", "custom-call-start", "fusion-start"}
_STARTS = {*_WRAPPERS, *(f"{kind}-start" for kind in KINDS)}

# What writes nothing itself: what a call, on a SparseCore too, or an async start runs is looked at.
_WRITES_NOTHING = {
    "parameter",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "constant",
    "while",
    "call",
    "opt-barrier",
    "after-all",
    "partition-id",
}


@dataclass(frozen=True)
class Wanted:
    """What one round of the program must hold. `strict`: no copy of the payload besides.

    With `copied_first` a collective's input may be a copy, which belongs to it. `may_widen`: the
    compiler may compute all of them in float32, of which no time is one of this.
    """

    case: Case
    per_round: int
    strict: bool
    copied_first: bool = False
    may_widen: bool = False

    @property
    def collective(self) -> AbstractCollective:
        return COLLECTIVES[self.case.collective]

    @property
    def kind(self) -> str:
        return self.collective.hlo

    @property
    def result_bytes(self) -> int:
        return self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)

    @property
    def least_bytes(self) -> int:
        return max(1, self.case.payload_bytes // self.collective.parts(self.case.group_size))

    @property
    def pairs(self) -> set[tuple[int, ...]]:
        """(source, target) ranks of a collective that sends to single ranks; else none."""
        positions = self.collective.pairs(self.case.group_size)
        return {(group[a], group[b]) for group in self.case.groups for a, b in positions}

    def text(self) -> str:
        where = "" if self.case.clock is Clock.DISPATCH else " in each round of the loop"
        size = f"{self.result_bytes} bytes ({self.case.dtype})"
        return f"{self.per_round} {self.kind} of {size} over {self.case.group_size} ranks{where}"


def wanted(case: Case, per_round: int, *, device: Device, plain: bool = True) -> Wanted:
    """Not `plain` if work is injected. A single call counts with its copies, as users see it."""
    collective = COLLECTIVES[case.collective]
    strict = (
        collective.copy_free
        and plain
        and case.clock is not Clock.DISPATCH
        and (device is Device.CPU or collective.copy_free_on_accelerators)
    )
    return Wanted(
        case=case,
        per_round=per_round,
        strict=strict,
        copied_first=device is Device.GPU
        and collective.in_place_on_gpus
        and case.placement == Placement.OUT_OF_PLACE.value,
        may_widen=device is Device.CPU,
    )


@dataclass(frozen=True)
class Proved:
    """What one turn of a proved program's loop holds, and what reads or writes the payload.

    `collectives` are all of the turn's, `around` what else in it reads or writes a part of the
    payload, `around_loop` what does so in a call, outside of the loop. `starts` says that the
    collective is started, and waited for later.
    """

    collectives: tuple[Instruction, ...]
    around: tuple[Instruction, ...]
    around_loop: tuple[Instruction, ...]
    starts: bool = False


def prove(text: str, wanted: Wanted) -> Proof:
    """What the module holds. Raises MeasuringError NOT_A_COLLECTIVE with the offending text."""
    found = find(text, wanted)
    return Proof(
        collectives=dict(Counter(one.collective for one in found.collectives)),
        payload_copies=len(found.around),
        copies_per_call=len(found.around_loop),
        algorithm=wanted.case.strategy,
        chosen=algorithm_of(found.collectives),
        array_bytes=wanted.result_bytes,
        groups=wanted.case.groups,
    )


def find(text: str, wanted: Wanted) -> Proved:
    """The proved program's parts.

    Raises MeasuringError NOT_A_COLLECTIVE as `prove` does, and OTHER_DTYPE where all is right but
    that each collective is of float32, of as many elements.
    """
    module = read(text)
    looped = wanted.case.clock is not Clock.DISPATCH
    rounds = module.loop_bodies() if looped else (module.entry,)
    found = [one for name in rounds for one in module.reached(name) if one.collective]
    _check_number(module, found, wanted)
    widened = wanted.may_widen and all(_is_widened(one, wanted) for one in found)
    for one in found:
        _check_one(one, wanted, widened=widened)
    if widened:
        text = f"XLA's CPU compiler computes this {wanted.case.dtype} {wanted.kind} in float32"
        raise MeasuringError(FailureKind.OTHER_DTYPE, text)
    around = [one for name in rounds for one in _going_over(module, name, wanted)]
    # A TPU may hold a small payload in its own memory while the collective runs.
    copies = [
        one
        for one in around
        if not one.moves_between_memories
        and not (wanted.copied_first and _is_copied_for(one, found))
    ]
    if copies and wanted.strict:
        raise not_a_collective(f"the payload is copied between collectives: {_shown(copies[0])}")
    return Proved(
        collectives=tuple(found),
        around=tuple(around),
        around_loop=tuple(_going_over(module, module.entry, wanted)) if looped else (),
        starts=any(
            one.op in _STARTS and not one.is_waited_for_at_once
            for name in rounds
            for one in module.reached(name)
        ),
    )


def _check_number(module: Module, found: list[Instruction], wanted: Wanted) -> None:
    everywhere = module.collectives()
    right = [one for one in found if one.collective == wanted.kind]
    if len(right) == len(found) == len(everywhere) == wanted.per_round:
        return
    odd = next((one for one in everywhere if one not in right), None)
    kinds = dict(Counter(one.collective for one in everywhere))
    got = f"{kinds or 'none'}, {len(right)} of them there"
    shown = f", such as {_shown(odd)}" if odd is not None else ""
    raise not_a_collective(f"expected {wanted.text()}, XLA compiled {got}{shown}")


def _is_widened(one: Instruction, wanted: Wanted) -> bool:
    """Whether it is of float32 and of as many elements as a narrower dtype of the case has."""
    each, dtype = DTYPES[wanted.case.dtype].size_bytes, DTYPES["float32"].size_bytes
    floats = set(_ELEMENT.findall(one.text.partition(f" {one.op}(")[0])) == {"f32"}
    return each < dtype and floats and one.result_bytes * each == wanted.result_bytes * dtype


def _check_one(one: Instruction, wanted: Wanted, *, widened: bool) -> None:
    case = wanted.case
    if one.result_bytes != wanted.result_bytes and not widened:
        raise not_a_collective(f"expected {wanted.text()}, XLA compiled {_shown(one)}")
    if wanted.pairs:
        right = set(pairs_of(one.text) or ()) == wanted.pairs
    else:
        groups = groups_of(one.text, case.ranks)
        right = groups is not None and set(groups) == set(case.groups)
    if not right:
        braced = ",".join("{" + ",".join(map(str, group)) + "}" for group in case.groups)
        raise not_a_collective(
            f"expected {wanted.text()} in groups {braced[:_SHOWN_FIRST]}, "
            f"XLA compiled {_shown(one)}"
        )


def _shown(one: Instruction) -> str:
    given = one.text.partition(f" {one.op}(")[0]
    return f"{given[:_SHOWN_FIRST]} {one.op}(...):\n{one.text[:_SHOWN]}"


def _going_over(module: Module, name: str, wanted: Wanted) -> list[Instruction]:
    """Other instructions than collectives that write an array as large as a part of the payload."""
    return [
        one
        for one in module.reached(name, fused=False)
        if not one.collective
        and one.op not in _WRITES_NOTHING
        and not (one.op in _WRAPPERS and one.called)
        and not one.op.endswith(("-done", "-update"))
        and "AllocateBuffer" not in one.text
        and max(one.array_bytes, default=0) >= wanted.least_bytes
    ]


def _is_copied_for(one: Instruction, collectives: list[Instruction]) -> bool:
    return one.op == "copy" and any(f" {it.op}({one.name})" in it.text for it in collectives)
