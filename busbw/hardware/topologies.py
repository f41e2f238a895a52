"""Topologies by name, such as ``v5e:2x4`` and ``h100:8``, to compile for without the chips.

Slices are those of https://cloud.google.com/tpu/docs (system architecture, "TPU configurations"); a
shape counts chips along its axes. Figures of GPUs are those of the CUDA programming guide (appendix
"Compute Capabilities"), of data sheets and of the driver, in the fields of XLA's
``GpuTargetConfigProto`` and ``device_description.proto``.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from busbw.model.machine import Topology, extents_of
from busbw.model.words import KIB, MIB, Device, nearest, refusal

# All of v3; a pod of v2 ends at 16x16.
_PODS = ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32")
_FLAT = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One generation of TPUs: its name in front of a shape, JAX's name, shapes, devices a chip.

    `chip_config` is what libtpu calls the use of a chip's cores that JAX has on such a TPU, where
    libtpu takes another one for a chip that is not there.
    """

    name: str
    device_kind: str
    devices: int
    shapes: tuple[str, ...]
    chip_config: str = ""


SLICES: Mapping[str, Generation] = {
    one.name: one
    for one in (
        Generation(name="v2", device_kind="TPU v2", devices=2, shapes=_PODS[:6]),
        Generation(name="v3", device_kind="TPU v3", devices=2, shapes=_PODS),
        # Both cores as one device.
        Generation(
            name="v4", device_kind="TPU v4", devices=1, shapes=_CUBES, chip_config="megacore"
        ),
        Generation(name="v5e", device_kind="TPU v5 lite", devices=1, shapes=_FLAT),
        Generation(name="v5p", device_kind="TPU v5", devices=1, shapes=_CUBES),
        Generation(name="v6e", device_kind="TPU v6 lite", devices=1, shapes=_FLAT),
        Generation(name="tpu7x", device_kind="TPU7x", devices=2, shapes=_CUBES),
    )
}


def wraps(shape: str) -> tuple[bool, ...]:
    """For each axis of a slice whether its ends are joined.

    Of two axes, one of 16 chips is the whole length of a pod of v5e or v6e and closes. Of three
    axes, the slices of whole cubes of 4 x 4 x 4 chips close, through the optical switches between
    cubes.
    """
    extents = extents_of(shape)
    if len(extents) == 2:
        return tuple(extent == 16 for extent in extents)
    whole_cubes = all(extent % 4 == 0 for extent in extents)
    return (whole_cubes,) * len(extents)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU: `name` in front of a topology, JAX's name of it, and the figures of the chip.

    `memory_bytes` is what the driver reports. `shared_bytes` is shared memory of a multiprocessor,
    of which a block may have all but 1 KiB.
    """

    name: str
    device_kind: str
    capability: tuple[int, int]
    multiprocessors: int
    lanes: int
    shared_bytes: int
    cache_bytes: int
    memory_bytes: int
    memory_bytes_per_s: int
    clock_ghz: float
    links: int
    most_ranks: int = 8
    accelerated: bool = True

    def target_config(self) -> str:
        major, minor = self.capability
        feature = "ACCELERATED_FEATURES" if self.accelerated else "NONE"
        return f"""gpu_device_info {{
  name: "{self.device_kind}"
  device_vendor: "NVIDIA Corporation"
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {feature} }}
  core_count: {self.multiprocessors}
  fpus_per_core: {self.lanes}
  clock_rate_ghz: {self.clock_ghz:g}
  device_memory_size: {self.memory_bytes}
  memory_bandwidth: {self.memory_bytes_per_s}
  l2_cache_size: {self.cache_bytes}
  shared_memory_per_core: {self.shared_bytes}
  shared_memory_per_block_optin: {self.shared_bytes - 1024}
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
  device_interconnect_info {{ active_links: {self.links} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{self.device_kind}"
"""


# What NVIDIA's chips have had in common since Hopper.
_since_hopper = functools.partial(Gpu, lanes=128, shared_bytes=228 * KIB, links=18)
_A100 = Gpu(
    name="a100",
    device_kind="NVIDIA A100-SXM4-80GB",
    capability=(8, 0),
    multiprocessors=108,
    lanes=64,
    shared_bytes=164 * KIB,
    cache_bytes=40 * MIB,
    memory_bytes=85_100_068_864,
    memory_bytes_per_s=2_039_000_000_000,
    clock_ghz=1.41,
    links=12,
    most_ranks=16,
    accelerated=False,
)
_H100 = _since_hopper(
    name="h100",
    device_kind="NVIDIA H100 80GB HBM3",
    capability=(9, 0),
    multiprocessors=132,
    cache_bytes=50 * MIB,
    memory_bytes=84_942_979_072,
    memory_bytes_per_s=3_352_000_000_000,
    clock_ghz=1.98,
)
_H200 = replace(
    _H100,
    name="h200",
    device_kind="NVIDIA H200",
    memory_bytes=151_397_597_184,
    memory_bytes_per_s=4_800_000_000_000,
)
_B200 = _since_hopper(
    name="b200",
    device_kind="NVIDIA B200",
    capability=(10, 0),
    multiprocessors=148,
    cache_bytes=132_644_864,
    memory_bytes=191_514_411_008,
    memory_bytes_per_s=8_000_000_000_000,
    clock_ghz=1.965,
)
_GB200 = replace(
    _B200,
    name="gb200",
    device_kind="NVIDIA GB200",
    multiprocessors=152,
    cache_bytes=135_528_448,
    memory_bytes=197_897_748_480,
    clock_ghz=2.062,
    most_ranks=72,
)
GPUS: Mapping[str, Gpu] = {gpu.name: gpu for gpu in (_A100, _H100, _H200, _B200, _GB200)}

# One of each chip: of TPUs 8 ranks where that is a shape, of GPUs one host.
USUAL_TOPOLOGIES = (
    "v2:2x2",
    "v3:2x2",
    "v4:2x2x2",
    "v5e:2x4",
    "v5p:2x2x2",
    "v6e:2x4",
    "tpu7x:2x2x1",
    "a100:8",
    "h100:8",
    "h200:8",
    "b200:8",
    "gb200:8",
)

# What clouds call some chips.
_OTHERS = {"v5litepod": "v5e", "v5lite": "v5e", "v5 lite": "v5e", "v7x": "tpu7x"}

_GPU_COUNT = re.compile(r"(?:(?P<hosts>[1-9]\d?)x)?(?P<each>[1-9]\d?)")


def kind_of_type(accelerator_type: str) -> str:
    """JAX's name of the TPU that clouds call, with its size, such as ``v5litepod-8``; else ""."""
    name = accelerator_type.partition("-")[0]
    generation = SLICES.get(_OTHERS.get(name, name))
    return generation.device_kind if generation is not None else ""


def topology_of(name: str) -> Topology:
    """Raises ValueError with the shapes of a known chip, else with all chips."""
    chip, _, layout = name.partition(":")
    if chip in SLICES:
        return _slice(name, chip, layout)
    if chip in GPUS:
        return _gpus(name, GPUS[chip], layout)
    raise ValueError(f"{name[:60]!r}: no chip is called {refusal(chip, (*SLICES, *GPUS), _OTHERS)}")


def _slice(name: str, chip: str, layout: str) -> Topology:
    generation = SLICES[chip]
    if layout not in generation.shapes:
        turned = {"x".join(reversed(shape.split("x"))): shape for shape in generation.shapes}
        near = nearest(layout, generation.shapes, turned)
        meant = f"did you mean {f'{chip}:{near}'!r}? " if near else ""
        raise ValueError(
            f"{name[:60]!r}: {meant}{chip} is known as "
            f"{', '.join(f'{chip}:{shape}' for shape in generation.shapes)}"
        )
    return Topology(
        name=name,
        device=Device.TPU,
        device_kind=generation.device_kind,
        layout=name,
        ranks=generation.devices * math.prod(extents_of(layout)),
        chip_config=generation.chip_config,
    )


def _gpus(name: str, gpu: Gpu, layout: str) -> Topology:
    match = _GPU_COUNT.fullmatch(layout)
    each = int(match["each"]) if match else 0
    hosts = int(match["hosts"] or 1) if match else 0
    if not 1 <= each <= gpu.most_ranks or hosts * each < 2:
        raise ValueError(
            f"{name!r}: {gpu.name} is known with 2 to {gpu.most_ranks} GPUs in a host, such as "
            f"{gpu.name}:8, and with several hosts, such as {gpu.name}:2x8 for two of 8 GPUs"
        )
    return Topology(
        name=name,
        device=Device.GPU,
        device_kind=gpu.device_kind,
        layout=f"1x{hosts}x{each}",
        ranks=hosts * each,
        hosts=hosts,
        target_config=gpu.target_config(),
        memory_bytes=gpu.memory_bytes,
    )
