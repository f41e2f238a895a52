"""libtpu itself, without a TPU: what it makes of the programs that measure, and of broken ones.

Skipped where libtpu is not installed. One worker compiles everything, as the driver starts it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest

from busbw import cases, driver, hardware
from busbw.model import GIB, Case, Compiled, Compiler, Failure, FailureKind, Probe, Spec
from tests.worker.backends import real

pytestmark = [real.needs("jax"), real.needs("libtpu")]

TIMEOUT_S = 120.0
SIZES = {"1K": 1024, "64K": 65536, "1M": 2**20}
OUT_OF_PLACE = {"placement": "out_of_place"}

# A name, a topology, and what is asked for beside a JAX all-reduce of 1M.
WANTED: Mapping[str, tuple[str, dict[str, object]]] = {
    **{f"v5e {name}": ("v5e:2x4", {"payload_bytes": size}) for name, size in SIZES.items()},
    **{f"v6e {name}": ("v6e:2x4", {"payload_bytes": size}) for name, size in SIZES.items()},
    "v2": ("v2:2x2", {}),
    "v4": ("v4:2x2x2", {}),
    "tpu7x": ("tpu7x:2x2x1", {}),
    "v5e fits": ("v5e:2x4", {"payload_bytes": 12 * GIB}),
    "v5e too large": ("v5e:2x4", {"payload_bytes": 16 * GIB}),
    "v5e out of place": ("v5e:2x4", {"payload_bytes": 12 * GIB, **OUT_OF_PLACE}),
    "v5e along y": ("v5e:2x4", {"mesh": "2x4", "axes": "y"}),
    "v5e gather": ("v5e:2x4", {"collective": "all_gather", "reduce_op": "none", **OUT_OF_PLACE}),
}

Answers = dict[str, "Compiled | Failure"]


@pytest.fixture(scope="module")
def compilers() -> dict[str, Compiler]:
    """What libtpu is for each topology."""
    return _described()


@pytest.fixture(scope="module")
def answers(compilers: dict[str, Compiler]) -> Answers:
    """What became of each that is wanted."""
    bundle = driver.Bundle()
    try:
        compiling = _compiling(bundle)
        jobs = {
            name: driver.Job(
                case=_case(compilers[topology], changes), topology=hardware.topology_of(topology)
            )
            for name, (topology, changes) in WANTED.items()
        }
        compiling.run(list(jobs.values()))
        return {name: compiling.results[job] for name, job in jobs.items()}
    finally:
        bundle.remove()


def _described() -> dict[str, Compiler]:
    bundle = driver.Bundle()
    try:
        names = dict.fromkeys(topology for topology, _ in WANTED.values())
        found = _compiling(bundle).describe("", [hardware.topology_of(name) for name in names])
        return {one.topology: one for one in found}
    finally:
        bundle.remove()


def _compiling(bundle: driver.Bundle) -> driver.Compiling:
    starter = driver.Starter(python=sys.executable, framework="xla")
    return driver.Compiling(starters={"": starter}, bundle=bundle, workers=2, timeout_s=TIMEOUT_S)


def _case(compiler: Compiler, changes: dict[str, object]) -> Case:
    assert compiler.devices is not None, compiler.missing
    probe = Probe(
        framework="jax",
        framework_path="",
        devices=(compiler.devices,),
        missing={},
        versions=compiler.versions,
    )
    target = cases.choose_target(
        device=compiler.devices.device, ranks=None, probes=[probe], named=["jax"]
    )
    spec = Spec(framework="jax", payload_bytes=2**20)
    return cases.resolve(replace(spec, **changes), target)  # type: ignore[arg-type]


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


# What is compiled after the collective was taken out of the program.
_SABOTAGED = """
import os, sys
sys.path.insert(0, os.getcwd())
from busbw import hardware
from busbw.worker import environ
os.environ["TPU_LOG_DIR"] = sys.argv[1]
environ.prepare("xla", None)
from busbw.worker.backends import jax_forms
from busbw.worker.backends.jax_compiler import JaxCompiler
from busbw.worker.compile import Bench
from tests import build
jax_forms._collective = lambda case, axes, values: values + values
case = build.case(ranks=8, mesh="2x4", payload_bytes=2**20, protocol="device/chain2")
bench = Bench(compiler=JaxCompiler(), launch="1")
print("ANSWER", bench.compile(case, hardware.topology_of("v5e:2x4")))
"""


def test_a_program_that_lost_its_collective_is_no_collective(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SABOTAGED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    (answer,) = [line for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert FailureKind.NOT_A_COLLECTIVE.value in answer
    assert "expected 1 all-reduce of 1048576 bytes" in answer
