"""GPUs as XLA's compiler wants them described, for compiling where there is none.

The figures are NVIDIA's: compute capabilities and what belongs to them from the CUDA programming
guide (appendix "Compute Capabilities"), cores, caches, clocks and memory from the data sheets and
as the driver reports them. The text is an XLA ``GpuTargetConfigProto`` in text form; field names
as in XLA's ``device_description.proto``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
        """The chip in the text form of XLA's ``GpuTargetConfigProto``."""
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


_KIB = 1024

GPUS: Mapping[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu(
            name="a100",
            device_kind="NVIDIA A100-SXM4-80GB",
            capability=(8, 0),
            multiprocessors=108,
            lanes=64,
            shared_bytes=164 * _KIB,
            cache_bytes=40 * _KIB**2,
            memory_bytes=85_100_068_864,
            memory_bytes_per_s=2_039_000_000_000,
            clock_ghz=1.41,
            links=12,
            most_ranks=16,
            accelerated=False,
        ),
        Gpu(
            name="h100",
            device_kind="NVIDIA H100 80GB HBM3",
            capability=(9, 0),
            multiprocessors=132,
            lanes=128,
            shared_bytes=228 * _KIB,
            cache_bytes=50 * _KIB**2,
            memory_bytes=84_942_979_072,
            memory_bytes_per_s=3_352_000_000_000,
            clock_ghz=1.98,
            links=18,
        ),
        Gpu(
            name="h200",
            device_kind="NVIDIA H200",
            capability=(9, 0),
            multiprocessors=132,
            lanes=128,
            shared_bytes=228 * _KIB,
            cache_bytes=50 * _KIB**2,
            memory_bytes=151_397_597_184,
            memory_bytes_per_s=4_800_000_000_000,
            clock_ghz=1.98,
            links=18,
        ),
        Gpu(
            name="b200",
            device_kind="NVIDIA B200",
            capability=(10, 0),
            multiprocessors=148,
            lanes=128,
            shared_bytes=228 * _KIB,
            cache_bytes=132_644_864,
            memory_bytes=191_514_411_008,
            memory_bytes_per_s=8_000_000_000_000,
            clock_ghz=1.965,
            links=18,
        ),
        Gpu(
            name="gb200",
            device_kind="NVIDIA GB200",
            capability=(10, 0),
            multiprocessors=152,
            lanes=128,
            shared_bytes=228 * _KIB,
            cache_bytes=135_528_448,
            memory_bytes=197_897_748_480,
            memory_bytes_per_s=8_000_000_000_000,
            clock_ghz=2.062,
            links=18,
            most_ranks=72,
        ),
    )
}
