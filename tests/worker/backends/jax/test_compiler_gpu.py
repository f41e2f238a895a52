"""XLA for CUDA itself, without a GPU: what it makes of the programs that measure, and of others.

Skipped where it is not installed. One worker compiles everything, as the driver starts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.hardware.topologies import GPUS, topology_of
from busbw.model.launch import Compiled, Failure
from busbw.model.machine import Compiler
from busbw.model.words import GIB, Device, FailureKind, FoundBy
from tests.worker.backends import real, real_compilers

pytestmark = [real.needs("jax"), real.needs("jax_plugins.xla_cuda13")]

OUT_OF_PLACE = {"placement": "out_of_place"}
APART = {"reduce_op": "none", **OUT_OF_PLACE}
OTHERS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "all_gather": ("all-gather", APART),
    "reduce_scatter": ("reduce-scatter", OUT_OF_PLACE),
    "all_to_all": ("all-to-all", APART),
    "permute": ("collective-permute", APART),
}
CHIPS = [f"{name}:8" for name in GPUS]

# A name, a topology, and what is asked for beside a JAX all-reduce of 1M.
WANTED: Mapping[str, real_compilers.Wanted] = {
    **{chip: (chip, {}) for chip in CHIPS},
    "small": ("h100:8", {"payload_bytes": 1024}),
    "large": ("h100:8", {"payload_bytes": 64 * 2**20}),
    "two hosts": ("h100:2x8", {}),
    "along y": ("h100:8", {"mesh": "2x4", "axes": "y"}),
    "out of place": ("h100:8", OUT_OF_PLACE),
    **{name: ("h100:8", {"collective": name, **given}) for name, (_, given) in OTHERS.items()},
    "fits": ("h100:8", {"payload_bytes": 64 * GIB}),
    "too large": ("h100:8", {"payload_bytes": 128 * GIB}),
    "too large out of place": ("h100:8", {"payload_bytes": 64 * GIB, **OUT_OF_PLACE}),
    "fits a larger one": ("h200:8", {"payload_bytes": 64 * GIB, **OUT_OF_PLACE}),
}

Answers = dict[str, "Compiled | Failure"]


@pytest.fixture(scope="module")
def compilers() -> dict[str, Compiler]:
    """What the compiler is for each topology."""
    return real_compilers.described(dict.fromkeys(topology for topology, _ in WANTED.values()))


@pytest.fixture(scope="module")
def answers(compilers: dict[str, Compiler]) -> Answers:
    """What became of each that is wanted."""
    return real_compilers.answers(WANTED, compilers)


def compiled(answers: Answers, name: str) -> Compiled:
    found = answers[name]
    assert isinstance(found, Compiled), found
    return found


@pytest.mark.parametrize("chip", CHIPS)
def test_a_topology_is_what_jax_would_see_on_it(compilers: dict[str, Compiler], chip: str) -> None:
    one = compilers[chip]
    assert one.devices is not None, one.missing
    assert one.devices.device is Device.GPU
    assert one.devices.device_kind == topology_of(chip).device_kind
    assert (one.devices.ranks, one.devices.hosts, one.devices.mesh) == (8, 1, "")
    assert one.release.startswith("jax-cuda13-pjrt 0.")


def test_two_hosts_are_two_processes(compilers: dict[str, Compiler]) -> None:
    devices = compilers["h100:2x8"].devices
    assert devices is not None
    assert (devices.ranks, devices.hosts, devices.processes) == (16, 2, 2)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_chain_is_one_all_reduce_a_turn_in_place_with_nothing_beside_it(
    answers: Answers, chip: str
) -> None:
    found = compiled(answers, chip)
    assert (found.collectives, found.groups) == ({"all-reduce": 1}, "1x8")
    assert (found.around, found.around_loop) == ({}, {})
    assert found.alias_bytes == 2**20
    assert found.temporary_bytes < 4096


def test_the_compiler_s_own_kernels_are_published_and_depend_on_the_payload(
    answers: Answers,
) -> None:
    published = [compiled(answers, name).algorithm for name in ("small", "h100:8", "large")]
    assert published == [{"strategy": "TRITON_ONE_SHOT"}, {"strategy": "TRITON_TWO_SHOT"}, {}]


def test_an_a100_has_none_of_them_and_waits_at_once(answers: Answers) -> None:
    found = compiled(answers, "a100:8")
    assert (found.algorithm, found.starts) == ({}, False)
    assert compiled(answers, "h100:8").starts


def test_sixteen_ranks_on_two_hosts_are_one_group(answers: Answers) -> None:
    assert compiled(answers, "two hosts").groups == "1x16"


def test_groups_are_compiled_as_they_are_measured(answers: Answers) -> None:
    assert compiled(answers, "along y").groups == "2x4"


def test_out_of_place_the_input_is_copied_each_time(answers: Answers) -> None:
    found = compiled(answers, "out of place")
    assert (found.collectives, found.around) == ({"all-reduce": 1}, {"copy": 1})


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_collectives_are_themselves_without_a_copy(answers: Answers, name: str) -> None:
    found = compiled(answers, name)
    assert found.collectives == {OTHERS[name][0]: 1}
    assert (found.around, found.around_loop) == ({}, {})


def test_what_is_too_large_for_the_chip_is_out_of_memory_though_it_compiles(
    answers: Answers,
) -> None:
    assert compiled(answers, "fits").peak_bytes >= 64 * GIB
    assert compiled(answers, "fits a larger one").peak_bytes >= 128 * GIB
    for name in ("too large", "too large out of place"):
        found = answers[name]
        assert isinstance(found, Failure)
        assert (found.kind, found.found) == (FailureKind.OUT_OF_MEMORY, FoundBy.PREDICTED)
        assert found.needed_bytes is not None
        assert 0 <= found.needed_bytes - 128 * GIB < 4096
        assert found.available_bytes == GPUS["h100"].memory_bytes


@pytest.mark.parametrize(
    ("collective", "said"),
    [
        ("values + values", "XLA compiled none, 0 of them there"),
        (
            "forms.versions.varying(jax.lax.psum(jax.lax.psum(values, axes), axes), axes)",
            "XLA compiled {'all-reduce': 2}",
        ),
    ],
)
def test_a_program_with_another_number_of_collectives_is_no_collective(
    tmp_path: Path, collective: str, said: str
) -> None:
    answer = real_compilers.sabotaged("h100:8", collective, tmp_path)
    assert FailureKind.NOT_A_COLLECTIVE.value in answer
    assert "expected 1 all-reduce of 1048576 bytes" in answer
    assert said in answer
