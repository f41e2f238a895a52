"""A process that shares a GPU with others of its group: which it sees, and how much of its memory.

NCCL takes ranks on one GPU for a mistake, unless they are on different hosts, and XLA's allocator
would take most of the GPU for one process. Both read the environment when the device is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device
from busbw.worker.backends.base import unavailable

# How much of a GPU's memory XLA takes by default, and the variables that say otherwise: it accepts
# one of the two names.
_USUAL_FRACTION = 0.75
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", _FRACTION)


def prepare(member: ClusterMember) -> None:
    """Set what `variables_of` has, before a framework is imported."""
    if member.shared_devices:
        os.environ.update(variables_of(member, os.environ))


def variables_of(member: ClusterMember, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of one process that shares GPUs, given those of the session.

    Processes take the GPUs in turn. All have the same part of a GPU's memory: that of the GPU
    which most of them share. Raises MeasuringError UNAVAILABLE for a fraction that is no number.
    """
    devices, index = member.shared_devices, member.index
    listed = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    visible = listed or [str(number) for number in range(devices)]
    name = next((one for one in _FRACTIONS if environment.get(one)), _FRACTION)
    sharers = -(-member.count // devices)
    return {
        "NCCL_HOSTID": f"busbw-{index}",
        "CUDA_VISIBLE_DEVICES": visible[index % devices].strip(),
        name: f"{_fraction(name, environment) / sharers:.6f}",
    }


def _fraction(name: str, environment: Mapping[str, str]) -> float:
    text = environment.get(name) or str(_USUAL_FRACTION)
    try:
        return float(text)
    except ValueError:
        raise unavailable(f"{name}: expected a number such as 0.75, got {text[:60]!r}") from None


def check_enough(
    member: ClusterMember, device: Device | None, own: int | None, root: Path = Path("/")
) -> None:
    """Raise MeasuringError UNAVAILABLE where this process' `own` GPUs are not on its host.

    Otherwise the processes that do have theirs would wait for it. A host whose kernel shows no
    NVIDIA GPU has none, or they are others: JAX says that.
    """
    if member.shared_devices or device not in (None, Device.GPU) or own is None:
        return
    there = visible_gpus(os.environ, root)
    needed = own * (member.index % member.on_host + 1)
    if 0 < there < needed:
        raise unavailable(
            f"process {member.index} needs GPU {needed - 1}, and its host has {there}: "
            "--share-devices lets processes share GPUs, --device=cpu measures on the CPU"
        )


def visible_gpus(environment: Mapping[str, str], root: Path = Path("/")) -> int:
    """Count the NVIDIA GPUs that this process sees, by the kernel and the environment."""
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return len([name for name in listed.split(",") if name.strip() not in ("", "-1")])
    return len(list(root.glob("dev/nvidia[0-9]*")))
