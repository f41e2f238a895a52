"""What XLA's compilers make of the programs that measure, without a TPU and without a GPU.

Each is skipped where it is not installed. One worker compiles everything, as the driver starts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.extensions.compiled.compilers import GPUS, parse_topology
from busbw.extensions.compiled.worker import CompiledProgram
from busbw.model.launch import Failure
from busbw.model.words import GIB, DeviceClass, FailureKind, OutOfMemoryDetection
from tests.helpers import compilers
from tests.helpers import frameworks as real
from tests.helpers.sweep import sweep

pytestmark = real.needs("jax")
needs_libtpu = real.needs("libtpu")
needs_cuda = real.needs("jax_plugins.xla_cuda13")

SIZES = {"1K": 1024, "64K": 65536, "1M": 2**20}
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
ON_TPUS: Mapping[str, compilers.Wanted] = {
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
    "v5e gather": ("v5e:2x4", {"collective": "all_gather", **APART}),
}
ON_GPUS: Mapping[str, compilers.Wanted] = {
    **{chip: (chip, {}) for chip in CHIPS},
    "small": ("h100:8", {"payload_bytes": 1024}),
    "large": ("h100:8", {"payload_bytes": 64 * 2**20}),
    "two hosts": ("h100:2x8", {}),
    "along y": ("h100:8", {"mesh": "2x4", "axes": "y"}),
    "out of place": ("h100:8", OUT_OF_PLACE),
    **{name: ("h100:8", {"collective": name, **more}) for name, (_, more) in OTHERS.items()},
    "fits": ("h100:8", {"payload_bytes": 64 * GIB}),
    "too large": ("h100:8", {"payload_bytes": 128 * GIB}),
    "too large out of place": ("h100:8", {"payload_bytes": 64 * GIB, **OUT_OF_PLACE}),
    "fits a larger one": ("h200:8", {"payload_bytes": 64 * GIB, **OUT_OF_PLACE}),
}


CHAINS = [f"{chip} {size}" for chip in ("v5e", "v6e") for size in SIZES]
ONE = {"collectives": {"all-reduce": 1}}
ALONE: Mapping[str, object] = {"around": {}, "around_loop": {}}
IN_PLACE = {"collectives": {"all-reduce": 2}, "groups": "1x8", **ALONE}
SHOTS = {name: {"strategy": f"TRITON_{name}_SHOT"} for name in ("ONE", "TWO")}

# Of compiled programs, some attributes.
OF_TPUS: Mapping[str, Mapping[str, object]] = {
    **{name: {**ONE, "groups": "1x8", "temporary_bytes": 0} for name in (*CHAINS, "v2")},
    "v5e along y": {"groups": "2x4"},
    "v5e gather": {"collectives": {"all-gather": 1}},
    "v5e along hosts": ONE,
    "v5e along devices": ONE,
}
OF_GPUS: Mapping[str, Mapping[str, object]] = {
    **dict.fromkeys(CHIPS, IN_PLACE),
    "h100:8": {**IN_PLACE, "algorithm": SHOTS["TWO"], "starts": True},
    # It has no kernels of the compiler, and waits at once.
    "a100:8": {**IN_PLACE, "algorithm": {}, "starts": False},
    "small": {"algorithm": SHOTS["ONE"]},
    "large": {**ONE, "algorithm": {}},
    "two hosts": {"groups": "1x16"},
    "along y": {"groups": "2x4"},
    "out of place": {**ONE, "around": {"copy": 1}},
    **{name: {"collectives": {hlo: 1}, **ALONE} for name, (hlo, _) in OTHERS.items()},
}


class Programs:
    """The compilers of all topologies, and the results of all requested programs."""

    def __init__(self, wanted_programs: Mapping[str, compilers.Wanted]) -> None:
        self.compilers = compilers.compilers(
            dict.fromkeys(topology for topology, _ in wanted_programs.values())
        )
        self.answers = compilers.compiled(wanted_programs, self.compilers)

    def compiled(self, name: str) -> CompiledProgram:
        result = self.answers[name]
        assert isinstance(result, CompiledProgram), result
        return result

    def out_of_memory(self, name: str) -> Failure:
        result = self.answers[name]
        real.refused(result, FailureKind.OUT_OF_MEMORY, "")
        assert isinstance(result, Failure)
        return result


@pytest.fixture(scope="module")
def tpus() -> Programs:
    return Programs(ON_TPUS)


@pytest.fixture(scope="module")
def gpus() -> Programs:
    return Programs(ON_GPUS)


@needs_libtpu
def test_a_compiler_for_a_tpu_topology_describes_the_same_devices_as_jax_on_such_tpus(
    tpus: Programs,
) -> None:
    seen = {
        name: (compiler.devices.device_kind, compiler.devices.ranks, compiler.devices.mesh)
        for name, compiler in tpus.compilers.items()
        if compiler.devices is not None
    }
    assert seen == {
        "v2:2x2": ("TPU v2", 8, "2x2"),
        "v4:2x2x2": ("TPU v4", 8, "2x2x2"),
        "v5e:2x4": ("TPU v5 lite", 8, "2x4"),
        "v6e:2x4": ("TPU v6 lite", 8, "2x4"),
        "tpu7x:2x2x1": ("TPU7x", 8, "2x2"),
    }
    assert all(compiler.release.startswith("libtpu 0.0.") for compiler in tpus.compilers.values())
    assert all("Built on" in compiler.build for compiler in tpus.compilers.values())


def _check(programs: Programs, name: str, attributes: Mapping[str, object]) -> None:
    result = programs.compiled(name)
    assert {attribute: getattr(result, attribute) for attribute in attributes} == attributes


@needs_libtpu
@pytest.mark.parametrize("name", OF_TPUS)
def test_a_program_that_is_compiled_for_tpus_has_the_expected_collectives_and_memory(
    tpus: Programs, name: str
) -> None:
    _check(tpus, name, OF_TPUS[name])


@needs_cuda
@pytest.mark.parametrize("name", OF_GPUS)
def test_a_program_that_is_compiled_for_gpus_has_the_expected_collectives_and_algorithm(
    gpus: Programs, name: str
) -> None:
    _check(gpus, name, OF_GPUS[name])


@needs_libtpu
def test_a_mesh_with_another_number_of_hosts_than_the_topology_is_refused(tpus: Programs) -> None:
    message = "2 processes are not 4 equal parts of the mesh"
    real.refused(tpus.answers["v5e other hosts"], FailureKind.UNAVAILABLE, message)


@needs_libtpu
def test_the_tpu_compiler_publishes_an_algorithm_that_depends_on_the_payload(
    tpus: Programs,
) -> None:
    emitters = {name: tpus.compiled(name).algorithm["emitter"] for name in CHAINS}
    assert all(emitter.endswith("Emitter") for emitter in emitters.values())
    assert len({emitters[f"v5e {size}"] for size in SIZES}) > 1


@needs_libtpu
def test_a_tpu7x_runs_all_reduce_on_sparse_cores_with_additional_memory(tpus: Programs) -> None:
    result = tpus.compiled("tpu7x")
    assert result.algorithm["offload"] == "SparseCore"
    assert result.algorithm["colors"].isdecimal()
    assert result.starts
    assert result.temporary_bytes >= 2**20


@needs_libtpu
def test_a_program_too_large_for_a_tpu_reports_the_bytes_that_the_compiler_reports(
    tpus: Programs,
) -> None:
    assert tpus.compiled("v5e fits").peak_bytes >= 12 * GIB
    for name, needed in (("v5e too large", 16), ("v5e out of place", 24)):
        result = tpus.out_of_memory(name)
        assert (result.needed_bytes, result.available_bytes) == (needed * GIB, int(15.75 * GIB))


@needs_cuda
@pytest.mark.parametrize("chip", CHIPS)
def test_a_compiler_for_a_gpu_topology_describes_the_same_devices_as_jax_on_such_gpus(
    gpus: Programs, chip: str
) -> None:
    compiler = gpus.compilers[chip]
    assert compiler.devices is not None, compiler.missing
    assert compiler.devices.device is DeviceClass.GPU
    assert compiler.devices.device_kind == parse_topology(chip).device_kind
    assert (compiler.devices.ranks, compiler.devices.hosts, compiler.devices.mesh) == (8, 1, "")
    assert compiler.release.startswith("jax-cuda13-pjrt 0.")


@needs_cuda
def test_a_gpu_topology_of_two_hosts_has_two_processes(gpus: Programs) -> None:
    devices = gpus.compilers["h100:2x8"].devices
    assert devices is not None
    assert (devices.ranks, devices.hosts, devices.processes) == (16, 2, 2)


@needs_cuda
def test_a_program_too_large_for_a_gpu_is_out_of_memory_even_if_it_can_be_compiled(
    gpus: Programs,
) -> None:
    assert all(gpus.compiled(chip).temporary_bytes < 4096 for chip in CHIPS)
    assert gpus.compiled("fits").peak_bytes >= 64 * GIB
    assert gpus.compiled("fits a larger one").peak_bytes >= 128 * GIB
    for name in ("too large", "too large out of place"):
        result = gpus.out_of_memory(name)
        assert result.detected is OutOfMemoryDetection.PREDICTED and result.needed_bytes is not None
        assert 0 <= result.needed_bytes - 128 * GIB < 4096
        assert result.available_bytes == GPUS["h100"].memory_bytes


TWICE = "forms.versions.type_as_varying(jax.lax.psum(jax.lax.psum(values, axes), axes), axes)"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("topology", "collective", "expected", "message"),
    sweep(
        [
            pytest.param("v5e:2x4", "values + values", 1, "compiled none", marks=needs_libtpu),
            pytest.param("h100:8", "values + values", 2, "compiled none", marks=needs_cuda),
            pytest.param("h100:8", TWICE, 2, "compiled {'all-reduce': 4}", marks=needs_cuda),
        ],
    ),
)
def test_a_compiled_program_with_another_number_of_collectives_than_expected_is_refused(
    tmp_path: Path, topology: str, collective: str, expected: int, message: str
) -> None:
    mesh = "2x4" if topology.startswith("v5e") else ""
    answer = compilers.sabotaged_program(topology, collective, tmp_path, mesh=mesh)
    assert FailureKind.NOT_A_COLLECTIVE.value in answer
    assert f"expected {expected} all-reduce of 1048576 bytes" in answer
    assert f"XLA {message}" in answer
