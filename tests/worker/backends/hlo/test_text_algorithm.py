"""What libtpu publishes of a collective's algorithm, read from lines as it writes them."""

from __future__ import annotations

import json

import pytest

from busbw.model.words import Device
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo import text as hlo
from tests import build

CASE = build.case(ranks=8, mesh="2x4", payload_bytes=65536, protocol="device/chain2")
GROUPS = "replica_groups={{0,1,2,3,4,5,6,7}}"
RING = {
    "emitter": "RotatedPincerEmitter",
    "strategy": "UniDirection1DRingStrategy",
    "debug": "\nUniDirection1DRingStrategy{colors:2 phases:1 cores:{8},{8} nophase0:0}",
}
COLOR = {"phase_rings": [{"ring_type": "ICI_RING_TYPE_UNIDIR_CW"}] * 2}
OTHER_COLOR = {"phase_rings": [{"ring_type": "ICI_RING_TYPE_UNIDIR_CCW"}] * 2}
SPARSECORE = {
    "device_type": "DEVICE_TYPE_SPARSECORE",
    "collective_offload_config": {
        "all_reduce_offload_config": {
            "ici_strategy_config": {"color_strategies": [COLOR, OTHER_COLOR]}
        },
        "is_conditional_collective_offload": False,
    },
}


def all_reduce(config: object = None, operand: str = "own") -> str:
    text = "" if config is None else f", backend_config={json.dumps(config)}"
    return f"%ar = f32[16384]{{0}} all-reduce(%{operand}), {GROUPS}, to_apply=%add{text}"


def published(*configs: object) -> dict[str, str]:
    """What is read of collectives with these configurations."""
    lines = "\n".join("  " + all_reduce(config) for config in configs)
    module = hlo.read(f"%body (own: f32[16384]) -> f32[16384] {{\n{lines}\n}}")
    return hlo.algorithm_of(module.collectives())


def test_an_algorithm_is_read_with_colors_and_phases() -> None:
    assert published({"collective_algorithm_config": RING, "flag_configs": []}) == {
        "colors": "2",
        "emitter": "RotatedPincerEmitter",
        "phases": "1",
        "strategy": "UniDirection1DRingStrategy",
    }


def test_an_emitter_alone_is_all_that_is_known() -> None:
    config = {"collective_algorithm_config": {"emitter": "SinglePhaseRingSumEmitter", "debug": ""}}
    assert published(config) == {"emitter": "SinglePhaseRingSumEmitter"}


def test_the_sparse_cores_rings_are_counted() -> None:
    assert published(SPARSECORE) == {
        "colors": "2",
        "offload": "SparseCore",
        "phases": "2",
        "rings": "UNIDIR_CCW+UNIDIR_CW",
    }


@pytest.mark.parametrize(
    "config", [None, {}, {"flag_configs": []}, {"collective_algorithm_config": {}}, [1], "text"]
)
def test_what_is_not_published_is_not_made_up(config: object) -> None:
    assert published(config) == {}


def test_a_cut_configuration_is_none() -> None:
    line = all_reduce({"collective_algorithm_config": RING})[:-10]
    module = hlo.read(f"%body (own: f32[4]) -> f32[4] {{\n  {line}\n}}")
    assert hlo.algorithm_of(module.collectives()) == {}


def test_collectives_that_differ_have_all_their_values() -> None:
    other = {**RING, "strategy": "StrategyRing"}
    found = published({"collective_algorithm_config": RING}, {"collective_algorithm_config": other})
    assert found["strategy"] == "UniDirection1DRingStrategy+StrategyRing"
    assert found["colors"] == "2"


STARTED = """\
%called (param: f32[16384]) -> f32[16384] {{
  %param = f32[16384]{{0}} parameter(0)
  ROOT {collective}
}}, execution_thread="sparsecore"

%body (held: (s32[], f32[16384])) -> (s32[], f32[16384]) {{
  %held = (s32[], f32[16384]{{0}}) parameter(0)
  %own = f32[16384]{{0}} get-tuple-element(%held), index=1
  {start}
  %done = f32[16384]{{0}} {kind}-done(%started)
}}

ENTRY %main (own: f32[16384]) -> (s32[], f32[16384]) {{
  %own.1 = f32[16384]{{0}} parameter(0)
  ROOT %while.1 = (s32[], f32[16384]{{0}}) while(%own.1), condition=%more, body=%body
}}
"""
CALL = (
    "%started = ((f32[16384]{0}, token[]), f32[16384]{0}) call-start(%own), "
    'async_execution_thread="sparsecore", to_apply=%called'
)
# The form of newer releases: the started call owns scratch memory, larger than the payload.
CUSTOM_CALL = (
    "%started = ((), (), (s32[24576]{0:T(1024)}, s32[131072]{0:T(1)S(15)}, s32[0]{0})) "
    'custom-call-start(), async_execution_thread="sparsecore", custom_call_target="made up", '
    "called_computations={%called}"
)


def started(start: str, kind: str, collective: str) -> str:
    return STARTED.format(start=start, kind=kind, collective=collective)


@pytest.mark.parametrize(
    ("start", "kind"), [(CALL, "call"), (CUSTOM_CALL, "custom-call")], ids=["call", "custom call"]
)
def test_a_collective_on_the_sparse_cores_is_proved_and_started_apart(
    start: str, kind: str
) -> None:
    text = started(start, kind, all_reduce(SPARSECORE, "param"))
    found = proof.find(text, proof.wanted(CASE, 1, device=Device.TPU))
    assert found.starts
    assert found.around == ()
    assert hlo.algorithm_of(found.collectives)["offload"] == "SparseCore"


@pytest.mark.parametrize(
    ("start", "kind"), [(CALL, "call"), (CUSTOM_CALL, "custom-call")], ids=["call", "custom call"]
)
def test_what_is_started_apart_and_is_no_collective_is_none(start: str, kind: str) -> None:
    text = started(start, kind, "%two = f32[16384]{0} add(%param, %param)")
    with pytest.raises(MeasuringError, match="expected 1 all-reduce of 65536 bytes"):
        proof.find(text, proof.wanted(CASE, 1, device=Device.TPU))
