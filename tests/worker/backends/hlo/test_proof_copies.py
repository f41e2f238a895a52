"""What goes over the payload beside the collectives: refused where none may, counted elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.launch import Proof
from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo.proof import Wanted
from tests import build

from . import programs
from .programs import FIRST, SECOND

COPY = '%copy.12 = f32[1024]{0} copy(%get-tuple-element.35), metadata={op_name="while/body"}'
FUSION = (
    "%multiply_fusion.1 = f32[1024]{0} fusion(%psum_invariant.12), kind=kLoop, "
    "calls=%fused_computation"
)
FUSED = """\
%fused_computation (p: f32[1024]) -> f32[1024] {
  %p = f32[1024]{0} parameter(0)
  ROOT %multiply.1 = f32[1024]{0} multiply(%p, %p)
}
"""


def _wanted(per_round: int = 2, *, strict: bool = True, **changes: Any) -> Wanted:
    return Wanted(case=build.case(**changes), per_round=per_round, strict=strict)


def _proof(text: str, per_round: int = 2, *, strict: bool = True, **changes: Any) -> Proof:
    return proof.prove(text, _wanted(per_round, strict=strict, **changes))


def _refused(text: str, per_round: int = 2, *, strict: bool = True, **changes: Any) -> str:
    with pytest.raises(MeasuringError) as caught:
        _proof(text, per_round, strict=strict, **changes)
    assert caught.value.kind is FailureKind.NOT_A_COLLECTIVE
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "computations"),
    [
        (COPY, ""),
        (COPY.replace("{0}", "{0:T(1024)S(1)}"), ""),
        (FUSION, FUSED),
        ("%a.1 = f32[1024]{0} add(%psum_invariant.12, %psum_invariant.12)", ""),
        ("%b.1 = f32[1024]{0} broadcast(%constant.1), dimensions={}", ""),
        (
            "%copy-start.1 = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}, u32[]{:S(2)}) "
            "copy-start(%gte.1)",
            "",
        ),
        ("%call.1 = f32[1024]{0} call(%p), to_apply=%fused_computation", FUSED),
    ],
)
def test_whatever_goes_over_the_payload_in_the_loop_is_refused_where_none_may(
    line: str, computations: str
) -> None:
    text = programs.cpu(FIRST, line, SECOND, computations=computations)
    assert "the payload is copied between collectives: " in _refused(text)
    assert _proof(text, strict=False).payload_copies == 1


def test_a_move_between_a_chip_s_memories_is_counted_and_refused_nowhere() -> None:
    """A TPU may hold a small payload in its own memory while the collective runs."""
    move = (
        "%copy-start.1 = (f32[1024]{0:T(1024)S(1)}, f32[1024]{0:T(1024)}, u32[]{:S(2)}) "
        "copy-start(%gte.1)"
    )
    assert _proof(programs.cpu(FIRST, move, SECOND)).payload_copies == 1


@pytest.mark.parametrize("line", [COPY, FUSION])
def test_in_the_entry_it_is_made_once_in_a_call_and_counted_as_that(line: str) -> None:
    proof = _proof(programs.cpu(FIRST, SECOND, entry=(line,), computations=FUSED))
    assert (proof.payload_copies, proof.copies_per_call) == (0, 1)


@pytest.mark.parametrize(
    "line",
    [
        "%copy.5 = s32[] copy(%get-tuple-element.34)",
        "%copy.6 = f32[16]{0} copy(%broadcast.2)",
        "%bitcast.6 = f32[1,1024]{1,0} bitcast(%get-tuple-element.35)",
        "%gte.9 = f32[1024]{0} get-tuple-element(%param), index=2",
        "%copy-done.1 = f32[1024]{0} copy-done(%copy-start.1)",
        '%a.1 = f32[1024]{0} custom-call(), custom_call_target="AllocateBuffer"',
        "%tuple.9 = (f32[1024]{0}, f32[1024]{0}) tuple(%a, %b)",
        "%ob.1 = (f32[1024]{0}, f32[1024]{0}) opt-barrier(%tuple.9)",
    ],
)
def test_counters_small_arrays_and_mere_names_are_no_copies_of_the_payload(line: str) -> None:
    assert _proof(programs.cpu(FIRST, line, SECOND)).payload_copies == 0


def test_a_block_of_a_payload_of_blocks_is_worth_counting() -> None:
    block = "%copy.1 = f32[256]{0} copy(%get-tuple-element.64)"
    smaller = "%copy.1 = f32[255]{0} copy(%get-tuple-element.64)"
    changes: dict[str, Any] = {
        "collective": "all_gather",
        "reduce_op": "none",
        "placement": "out_of_place",
    }
    for line, copies in ((block, 1), (smaller, 0)):
        text = programs.TPU_ALL_GATHER.replace("  %bitcast.6", f"  {line}\n  %bitcast.6")
        assert _proof(text, 1, strict=False, **changes).payload_copies == copies


def test_a_collective_s_own_sum_and_its_end_are_no_copies() -> None:
    start = FIRST.replace(" all-reduce(", " all-reduce-start(")
    done = "%d.1 = f32[1024]{0} all-reduce-done(%psum_invariant.12)"
    proof = _proof(programs.cpu(start, done, SECOND))
    assert (proof.collectives, proof.payload_copies) == ({"all-reduce": 2}, 0)
