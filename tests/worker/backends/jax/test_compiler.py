"""libtpu itself, without a TPU: what it makes of the programs that measure, and of broken ones.

Skipped where libtpu is not installed. One worker compiles everything, as the driver starts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.model.launch import Compiled, Failure
from busbw.model.machine import Compiler
from busbw.model.words import GIB, FailureKind
from tests.worker.backends import real, real_compilers

pytestmark = [real.needs("jax"), real.needs("libtpu")]

SIZES = {"1K": 1024, "64K": 65536, "1M": 2**20}
OUT_OF_PLACE = {"placement": "out_of_place"}

# A name, a topology, and what is asked for beside a JAX all-reduce of 1M.
WANTED: Mapping[str, real_compilers.Wanted] = {
    **{f"v5e {name}": ("v5e:2x4", {"payload_bytes": size}) for name, size in SIZES.items()},
    **{f"v6e {name}": ("v6e:2x4", {"payload_bytes": size}) for name, size in SIZES.items()},
    "v2": ("v2:2x2", {}),
    "v4": ("v4:2x2x2", {}),
    "tpu7x": ("tpu7x:2x2x1", {}),
    "v5e fits": ("v5e:2x4", {"payload_bytes": 12 * GIB}),
    "v5e too large": ("v5e:2x4", {"payload_bytes": 16 * GIB}),
    "v5e out of place": ("v5e:2x4", {"payload_bytes": 12 * GIB, **OUT_OF_PLACE}),
    "v5e along y": ("v5e:2x4", {"mesh": "2x4", "axes": "y"}),
    "v5e along hosts": ("v5e:2x4", {"mesh": "hosts:2,devices:4", "axes": "hosts"}),
    "v5e along devices": ("v5e:2x4", {"mesh": "hosts:2,devices:4", "axes": "devices"}),
    "v5e other hosts": ("v5e:2x4", {"mesh": "hosts:4,devices:2", "axes": "hosts"}),
    "v5e gather": ("v5e:2x4", {"collective": "all_gather", "reduce_op": "none", **OUT_OF_PLACE}),
}

Answers = dict[str, "Compiled | Failure"]


@pytest.fixture(scope="module")
def compilers() -> dict[str, Compiler]:
    """What libtpu is for each topology."""
    return real_compilers.described(dict.fromkeys(topology for topology, _ in WANTED.values()))


@pytest.fixture(scope="module")
def answers(compilers: dict[str, Compiler]) -> Answers:
    """What became of each that is wanted."""
    return real_compilers.answers(WANTED, compilers)


def compiled(answers: Answers, name: str) -> Compiled:
    found = answers[name]
    assert isinstance(found, Compiled), found
    return found


def test_a_topology_is_what_jax_would_see_on_it(compilers: dict[str, Compiler]) -> None:
    seen = {
        name: (one.devices.device_kind, one.devices.ranks, one.devices.mesh)
        for name, one in compilers.items()
        if one.devices is not None
    }
    assert seen == {
        "v2:2x2": ("TPU v2", 8, "2x2"),
        "v4:2x2x2": ("TPU v4", 8, "2x2x2"),
        "v5e:2x4": ("TPU v5 lite", 8, "2x4"),
        "v6e:2x4": ("TPU v6 lite", 8, "2x4"),
        "tpu7x:2x2x1": ("TPU7x", 8, "2x2"),
    }
    assert all(one.release.startswith("libtpu 0.0.") for one in compilers.values())
    assert all("Built on" in one.build for one in compilers.values())


@pytest.mark.parametrize("name", [*(f"v5e {s}" for s in SIZES), *(f"v6e {s}" for s in SIZES), "v2"])
def test_a_chain_is_one_all_reduce_a_turn_and_its_algorithm_is_published(
    answers: Answers, name: str
) -> None:
    found = compiled(answers, name)
    assert found.collectives == {"all-reduce": 1}
    assert found.groups == "1x8"
    assert found.algorithm["emitter"].endswith("Emitter")
    assert found.temporary_bytes == 0


def test_the_algorithm_depends_on_the_payload(answers: Answers) -> None:
    emitters = [compiled(answers, f"v5e {size}").algorithm["emitter"] for size in SIZES]
    assert len(set(emitters)) > 1


def test_a_tpu7x_hands_it_to_the_sparse_cores_with_memory_of_its_own(answers: Answers) -> None:
    found = compiled(answers, "tpu7x")
    assert found.algorithm["offload"] == "SparseCore"
    assert found.algorithm["colors"].isdecimal()
    assert found.starts
    assert found.temporary_bytes >= 2**20


def test_what_does_not_fit_is_out_of_memory_with_the_compiler_s_figures(answers: Answers) -> None:
    assert compiled(answers, "v5e fits").peak_bytes >= 12 * GIB
    for name, needed in (("v5e too large", 16), ("v5e out of place", 24)):
        found = answers[name]
        assert isinstance(found, Failure)
        assert found.kind is FailureKind.OUT_OF_MEMORY
        assert (found.needed_bytes, found.available_bytes) == (needed * GIB, int(15.75 * GIB))


def test_groups_and_other_collectives_are_compiled_as_they_are_measured(answers: Answers) -> None:
    assert compiled(answers, "v5e along y").groups == "2x4"
    assert compiled(answers, "v5e gather").collectives == {"all-gather": 1}


def test_between_hosts_and_within_one_it_is_compiled_by_itself(answers: Answers) -> None:
    for name in ("v5e along hosts", "v5e along devices"):
        assert compiled(answers, name).collectives == {"all-reduce": 1}
    refused = answers["v5e other hosts"]
    assert isinstance(refused, Failure)
    assert refused.message == "a mesh of hosts:4,devices:2 has 4 hosts, there are 2"


def test_a_program_that_lost_its_collective_is_no_collective(tmp_path: Path) -> None:
    answer = real_compilers.sabotaged("v5e:2x4", "values + values", tmp_path, mesh="2x4")
    assert FailureKind.NOT_A_COLLECTIVE.value in answer
    assert "expected 1 all-reduce of 1048576 bytes" in answer
