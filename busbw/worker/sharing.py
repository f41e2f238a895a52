"""GPUs of a process that belongs to a group: which GPU it uses, and how much of its memory.

NCCL refuses two ranks on one GPU unless they seem to be on different hosts, and by default XLA
takes most of a GPU's memory for one process. Both read the environment when the device is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device
from busbw.worker.backends.base import unavailable

# The share of a GPU's memory that XLA takes by default, and the variables that change it: XLA reads
# either name.
_DEFAULT_FRACTION = 0.75
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", _FRACTION)


def prepare(member: ClusterMember) -> None:
    """Set the variables of a process that shares a GPU, before a framework is imported."""
    if member.shared_devices:
        os.environ.update(variables_of(member, os.environ))


def variables_of(member: ClusterMember, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that shares GPUs, given those of the session.

    Process i takes GPU i modulo the number of GPUs. All processes take the same share of a GPU's
    memory, which is the share that fits the GPU with the most processes. Raises MeasuringError
    UNAVAILABLE for a fraction that is not a number.
    """
    devices, index = member.shared_devices, member.index
    visible = _visible(environment) or [str(number) for number in range(devices)]
    name = next((name for name in _FRACTIONS if environment.get(name)), _FRACTION)
    processes_per_device = -(-member.count // devices)
    return {
        "NCCL_HOSTID": f"busbw-{index}",
        "CUDA_VISIBLE_DEVICES": visible[index % devices].strip(),
        name: f"{_fraction(name, environment) / processes_per_device:.6f}",
    }


def _visible(environment: Mapping[str, str]) -> list[str]:
    return [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]


def _fraction(name: str, environment: Mapping[str, str]) -> float:
    text = environment.get(name) or str(_DEFAULT_FRACTION)
    try:
        return float(text)
    except ValueError:
        raise unavailable(f"{name}: expected a number such as 0.75, got {text[:60]!r}") from None


def check_gpu_count(
    member: ClusterMember, device: Device | None, local_ranks: int | None, root: Path = Path("/")
) -> None:
    """Raise MeasuringError UNAVAILABLE if the host lacks GPUs for the ranks of this process.

    Otherwise the processes that have GPUs would wait for this one. Nothing is raised on a host
    whose kernel lists no NVIDIA GPU: JAX reports a missing device itself.
    """
    if member.shared_devices or device not in (None, Device.GPU) or local_ranks is None:
        return
    count = visible_gpus(os.environ, root)
    needed = local_ranks * (member.index % member.on_host + 1)
    if 0 < count < needed:
        raise unavailable(
            f"process {member.index} needs GPU {needed - 1}, and its host has {count}: "
            "expected as many GPUs as ranks; --device=cpu measures on the CPU"
        )


def visible_gpus(environment: Mapping[str, str], root: Path = Path("/")) -> int:
    """Count the NVIDIA GPUs that the kernel and the environment let this process see."""
    if "CUDA_VISIBLE_DEVICES" in environment:
        return len([name for name in _visible(environment) if name.strip() not in ("", "-1")])
    return len(list(root.glob("dev/nvidia[0-9]*")))
