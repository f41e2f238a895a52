"""Find topologies by names such as ``v5e:2x4`` and ``h100:8``, to compile without the chips.

The slices of TPUs are listed at https://cloud.google.com/tpu/docs (system architecture, "TPU
configurations"). A shape such as ``2x4`` counts chips along each axis. The numbers of each GPU are
from the CUDA programming guide (appendix "Compute Capabilities"), data sheets and the driver. XLA
names these numbers in ``GpuTargetConfigProto`` and ``device_description.proto``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from busbw.hardware import CHIPS, Chip, chip_of
from busbw.model.machine import mesh_shape
from busbw.model.words import KIB, MIB, DeviceClass, choices_text

from .worker import Topology

# The chips that are sold as slices, by name.
SLICED_CHIPS = {chip.name: chip for chip in CHIPS if chip.shapes}

# The configuration of libtpu in which both cores of a chip are a single device, as JAX sees them on
# a real chip. Without it libtpu would choose another configuration for a chip that is not there.
_CHIP_CONFIGS = {"v4": "megacore"}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU chip for which programs can be compiled.

    Attributes:
        name: The beginning of the names of its topologies, such as ``h100``.
        device_kind: JAX's name for the chip.
        capability: The compute capability (major, minor).
        multiprocessor_count: The number of streaming multiprocessors.
        l2_cache_bytes: The size of the L2 cache.
        memory_bytes: The size of the device memory, as the driver reports it.
        memory_bandwidth_gb_per_s: The bandwidth of the device memory in GB/s (10^9 bytes/s).
        clock_ghz: The clock rate in GHz.
        max_gpus_per_host: The largest number of GPUs in a host.

    """

    name: str
    device_kind: str
    capability: tuple[int, int]
    multiprocessor_count: int
    l2_cache_bytes: int
    memory_bytes: int
    memory_bandwidth_gb_per_s: int
    clock_ghz: float
    max_gpus_per_host: int = 8

    def target_config(self) -> str:
        """Return the description of the chip for XLA: a ``GpuTargetConfigProto`` in text format."""
        major, minor = self.capability
        is_ampere, chip = major == 8, chip_of(self.device_kind)
        feature = "NONE" if is_ampere else "ACCELERATED_FEATURES"
        # CUDA reserves 1 KiB of a multiprocessor's shared memory for each block.
        shared_bytes = (164 if is_ampere else 228) * KIB
        return f"""gpu_device_info {{
  name: "{self.device_kind}"
  device_vendor: "NVIDIA Corporation"
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {feature} }}
  core_count: {self.multiprocessor_count}
  fpus_per_core: {64 if is_ampere else 128}
  clock_rate_ghz: {self.clock_ghz:g}
  device_memory_size: {self.memory_bytes}
  memory_bandwidth: {self.memory_bandwidth_gb_per_s * 10**9}
  l2_cache_size: {self.l2_cache_bytes}
  shared_memory_per_core: {shared_bytes}
  shared_memory_per_block_optin: {shared_bytes - KIB}
  shared_memory_per_block: {48 * 1024}
  registers_per_core_limit: {64 * 1024}
  registers_per_block_limit: {64 * 1024}
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  block_dim_limit_x: {2**31 - 1}
  block_dim_limit_y: {2**16 - 1}
  block_dim_limit_z: {2**16 - 1}
  device_interconnect_info {{ active_links: {chip.links if chip else 0} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{self.device_kind}"
"""


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu(
            "a100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 40 * MIB, 85_100_068_864, 2_039, 1.41, 16
        ),
        Gpu("h100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 50 * MIB, 84_942_979_072, 3_352, 1.98),
        Gpu("h200", "NVIDIA H200", (9, 0), 132, 50 * MIB, 151_397_597_184, 4_800, 1.98),
        Gpu("b200", "NVIDIA B200", (10, 0), 148, 132_644_864, 191_514_411_008, 8_000, 1.965),
        Gpu("gb200", "NVIDIA GB200", (10, 0), 152, 135_528_448, 197_897_748_480, 8_000, 2.062, 72),
    )
}


def _ranks_of_slice(chip: Chip, shape: str) -> int:
    """Return the number of ranks of a TPU slice; `shape` counts chips along axes, such as 2x4."""
    return chip.devices_per_chip * math.prod(mesh_shape(shape))


_SLICES_OF_8_RANKS = tuple(
    f"{name}:{shape}"
    for name, chip in SLICED_CHIPS.items()
    for shape in chip.shapes
    if _ranks_of_slice(chip, shape) == 8
)
_HOSTS_OF_8_GPUS = tuple(f"{name}:8" for name in GPUS)

# Words that stand for a topology of each chip: slices with 8 ranks, and a host with 8 GPUs.
TOPOLOGY_SETS = {
    "all": (*_SLICES_OF_8_RANKS, *_HOSTS_OF_8_GPUS),
    "tpu": _SLICES_OF_8_RANKS,
    "gpu": _HOSTS_OF_8_GPUS,
}

_GPU_LAYOUT_PATTERN = re.compile(r"(?:(?P<hosts>[1-9]\d?)x)?(?P<each>[1-9]\d?)")


def parse_topologies(text: str) -> tuple[Topology, ...]:
    """Return the topologies that a comma list names, each topology once.

    A word of the list is the name of a topology, such as ``v5e:2x4``, or of a set of topologies in
    TOPOLOGY_SETS, such as ``tpu``. Raises ValueError if a word is unknown.
    """
    words = filter(None, map(str.strip, text.split(",")))
    names = dict.fromkeys(name for word in words for name in TOPOLOGY_SETS.get(word, (word,)))
    return tuple(map(topology_of, names))


def topology_of(name: str) -> Topology:
    """Return the topology with the name `name`, such as ``v5e:2x4`` or ``h100:2x8``.

    Raises ValueError if the chip or its layout is unknown; the message lists the known names.
    """
    chip, _, layout = name.partition(":")
    if chip in SLICED_CHIPS:
        return _slice_topology(name, SLICED_CHIPS[chip], layout)
    if chip in GPUS:
        return _gpu_topology(name, GPUS[chip], layout)
    chips = choices_text((*SLICED_CHIPS, *GPUS))
    raise ValueError(f"{name[:60]!r}: no chip is called {chip[:60]!r}; expected one of {chips}")


def _slice_topology(name: str, chip: Chip, layout: str) -> Topology:
    """Return the topology `name`, a slice of TPU chips with the shape `layout`, such as ``2x4``.

    Raises ValueError if `layout` is not a known shape of the chip's slices.
    """
    if layout not in chip.shapes:
        names = ", ".join(f"{chip.name}:{shape}" for shape in chip.shapes)
        raise ValueError(f"{name[:60]!r}: {chip.name} is known as {names}")
    return Topology(
        name=name,
        device=DeviceClass.TPU,
        device_kind=chip.device_kind,
        layout=name,
        ranks=_ranks_of_slice(chip, layout),
        chip_config=_CHIP_CONFIGS.get(chip.name, ""),
    )


def _gpu_topology(name: str, gpu: Gpu, layout: str) -> Topology:
    """Return the topology `name`, whose GPUs are counted by `layout`.

    `layout` is the number of GPUs in a host, such as ``8``, or hosts x GPUs, such as ``2x8``.
    Raises ValueError for any other text, and for a number of GPUs that is too small or too large.
    """
    match = _GPU_LAYOUT_PATTERN.fullmatch(layout)
    hosts, ranks_per_host = (int(match["hosts"] or 1), int(match["each"])) if match else (0, 0)
    if not 1 <= ranks_per_host <= gpu.max_gpus_per_host or hosts * ranks_per_host < 2:
        raise ValueError(
            f"{name!r}: {gpu.name} is known with 2 to {gpu.max_gpus_per_host} GPUs in a host, such "
            f"as {gpu.name}:8, and with several hosts, such as {gpu.name}:2x8 for two of 8 GPUs"
        )
    return Topology(
        name=name,
        device=DeviceClass.GPU,
        device_kind=gpu.device_kind,
        layout=f"1x{hosts}x{ranks_per_host}",
        ranks=hosts * ranks_per_host,
        hosts=hosts,
        target_config=gpu.target_config(),
        memory_bytes=gpu.memory_bytes,
    )
