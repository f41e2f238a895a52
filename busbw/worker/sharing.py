"""Chooses the GPU of a process that belongs to a group, and its fraction of the GPU's memory.

NCCL refuses two ranks on a GPU unless the ranks seem to be on different hosts. XLA takes most of a
GPU's memory for a process by default. NCCL and XLA read these settings from the environment when a
device is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from busbw.model.machine import ClusterMember
from busbw.model.words import Device
from busbw.worker.backends.base import unavailable

# The fraction of a GPU's memory that XLA takes by default, and the two variables that change the
# fraction.
_DEFAULT_FRACTION = 0.75
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", _FRACTION)


def shared_gpu_variables(member: ClusterMember, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables to set before a process of a group imports its framework.

    The dictionary is empty if the process shares no GPU. Otherwise process i uses GPU i modulo the
    number of GPUs. All processes get the same fraction of a GPU's memory, so that the processes on
    the GPU with the most processes fit.

    Args:
        member: the process, and the number of GPUs that its group shares.
        environment: the present variables, which may limit GPUs and their memory.

    Raises:
        ValueError: the variable for the fraction of memory is not a number.

    """
    if not member.shared_devices:
        return {}
    devices, index = member.shared_devices, member.index
    visible = _visible_gpus(environment) or [str(number) for number in range(devices)]
    name = next((name for name in _FRACTIONS if environment.get(name)), _FRACTION)
    processes_per_device = -(-member.process_count // devices)
    return {
        "NCCL_HOSTID": f"busbw-{index}",
        "CUDA_VISIBLE_DEVICES": visible[index % devices].strip(),
        name: f"{float(environment.get(name) or _DEFAULT_FRACTION) / processes_per_device:.6f}",
    }


def _visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """Return the GPUs in CUDA_VISIBLE_DEVICES, empty if the variable lists none."""
    return [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]


def check_gpu_count(
    member: ClusterMember, device: Device | None, local_ranks: int | None, root: Path = Path("/")
) -> None:
    """Raise MeasuringError UNAVAILABLE if the host lacks GPUs for the ranks of this process.

    Without the error, the processes that have GPUs would wait for this process. No error is raised
    if the processes share GPUs, or if this process sees no NVIDIA GPU: JAX itself reports that.

    Args:
        member: this process and its group.
        device: the class of device to measure, None for any. Only GPUs are checked.
        local_ranks: the number of ranks in each process, None if every GPU is a rank.
        root: the root of the file system, another folder in tests.

    """
    if member.shared_devices or device not in (None, Device.GPU) or local_ranks is None:
        return
    count = count_visible_gpus(os.environ, root)
    needed = local_ranks * (member.index % member.processes_per_host + 1)
    if 0 < count < needed:
        raise unavailable(
            f"process {member.index} needs GPU {needed - 1}, and its host has {count}: "
            "expected as many GPUs as ranks; --device=cpu measures on the CPU"
        )


def count_visible_gpus(environment: Mapping[str, str], root: Path = Path("/")) -> int:
    """Return the number of NVIDIA GPUs that this process may use.

    CUDA_VISIBLE_DEVICES limits the GPUs. Without the variable all GPUs of the host are counted.
    """
    if "CUDA_VISIBLE_DEVICES" in environment:
        return len([name for name in _visible_gpus(environment) if name.strip() not in ("", "-1")])
    return len(list(root.glob("dev/nvidia[0-9]*")))
