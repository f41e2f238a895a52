"""The entry point of a worker: the driver runs this module in a process of its own.

The module prepares the process before a framework is imported: its environment variables, which
frameworks read when they start, and its signals. A setting that affects times or limits of memory
is a part of the protocol, so that times with different settings are never compared. If the driver,
which is the parent, ends, the kernel ends the worker. A thread of Python could not end the worker,
because a framework can hold Python's interpreter lock for minutes.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from busbw.model.machine import GroupMember
from busbw.model.words import DeviceClass

# These variables limit numpy's BLAS library to a single thread. After each matrix product, other
# threads would keep the cores of the ranks busy for tens of milliseconds. After busbw had checked
# the values of a training step, the next steps took up to twice as long (observed).
_BLAS_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# The fraction of a GPU's memory that XLA takes by default, and the two variables that change the
# fraction.
_DEFAULT_MEMORY_FRACTION = 0.75
_MEMORY_FRACTION_VARIABLE = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_MEMORY_FRACTION_VARIABLES = ("XLA_CLIENT_MEM_FRACTION", _MEMORY_FRACTION_VARIABLE)

# The operation of prctl(2) that chooses the signal of a process whose parent ends.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Prepare this worker process, and answer requests until the driver closes the channel."""
    # Imported modules never become garbage, and collecting garbage would take a sixth of the time
    # to import TensorFlow. `_serve` enables the collector again.
    gc.disable()
    options = _parser().parse_args()
    end_with_parent(options.parent)
    set_framework_variables(options.device)
    _prepare_for_hangs_and_lack_of_memory(options.device)
    # The channel carries JSON, which is UTF-8 in every locale.
    requests = os.fdopen(options.socket, "r", encoding="utf-8")
    replies = os.fdopen(os.dup(options.socket), "w", encoding="utf-8")
    with requests, replies:
        _serve(options, requests, replies)


def end_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent process ends, for whatever reason.

    `parent_pid` is the process id of the parent. If the parent has ended already, end this process
    now.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def set_framework_variables(device: DeviceClass | None) -> None:
    """Set this process's environment variables that frameworks read when they start.

    `device` is the class of device to measure, None for any class. If it is the CPU, frameworks do
    not see the GPUs.
    """
    os.environ.update(dict.fromkeys(_BLAS_THREAD_VARIABLES, "1"))
    if device is DeviceClass.CPU:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def shared_gpu_variables(member: GroupMember, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables by which processes of a group share GPUs.

    The result is empty if the process shares no GPU. Otherwise process i uses GPU i modulo the
    number of GPUs. Each process seems to be on a host of its own, because NCCL refuses two ranks of
    a host on the same GPU. All processes get the same fraction of a GPU's memory, so that the
    processes on the GPU with the most processes fit.

    NCCL and XLA read the variables when a device is opened, so set the variables before the process
    imports its framework.

    Args:
        member: the process, and the number of GPUs that its group shares.
        environment: the present variables, which may limit GPUs and their memory.

    Raises:
        ValueError: the variable for the fraction of memory is not a number.

    """
    if not member.shared_devices:
        return {}
    devices, index = member.shared_devices, member.index
    listed = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    visible = list(filter(None, listed))[:devices] or list(map(str, range(devices)))
    name = next(
        (name for name in _MEMORY_FRACTION_VARIABLES if environment.get(name)),
        _MEMORY_FRACTION_VARIABLE,
    )
    processes_per_device = -(-member.process_count // len(visible))
    fraction = float(environment.get(name) or _DEFAULT_MEMORY_FRACTION)
    return {
        "NCCL_HOSTID": f"busbw-{index}",
        "CUDA_VISIBLE_DEVICES": visible[index % len(visible)].strip(),
        name: f"{fraction / processes_per_device:.6f}",
    }


def _prepare_for_hangs_and_lack_of_memory(device: DeviceClass | None) -> None:
    """Set what this worker process does if it hangs, or if the host's memory runs out.

    On SIGUSR1, which the driver sends to a worker that hangs, the process prints the stacks of all
    threads to stderr. The process ignores Ctrl-C (SIGINT), because only the driver handles Ctrl-C.
    `device` is the class of device to measure. On the CPU, the kernel kills this process before
    other processes if memory runs out. Cases on other devices take little memory of the host.
    """
    score = Path("/proc/self/oom_score_adj")
    if device is DeviceClass.CPU and score.exists():
        score.write_text("1000")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _serve(options: argparse.Namespace, requests: TextIO, replies: TextIO) -> None:
    """Open the service that the command line names, and answer the requests for the service.

    A service is the work of a worker, such as measuring cases. If the service cannot be opened, or
    if a request is invalid, print the reason to stderr and exit with code 1.

    Args:
        options: the values of the worker's command line, as `_parser` declares them.
        requests: the stream of requests from the driver.
        replies: the stream of replies to the driver.

    """
    from busbw import wire
    from busbw.worker.backends.base import MeasuringError
    from busbw.worker.serve import SERVICES, load_function, serve

    try:
        if options.member:
            os.environ.update(shared_gpu_variables(options.member, os.environ))
        worker = load_function(SERVICES, "WORKER_SERVICES", options.service)(options)
        # The collector never examines the modules that are imported now.
        gc.freeze()
        gc.enable()
        serve(requests, replies, worker, options.launch)
    except (MeasuringError, wire.WireError) as error:
        # The driver shows the last line of the log: a sentence is more useful than a traceback.
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    """Return the parser of a worker's command line."""
    from busbw import wire
    from busbw.model.launch import LaunchId

    parser = argparse.ArgumentParser(prog="busbw.worker")
    parser.add_argument("--framework", required=True)
    parser.add_argument("--service", default="measure", help="a name in a table of services")
    parser.add_argument("--device", type=DeviceClass, help="cpu, gpu or tpu; any if it is left out")
    parser.add_argument("--ranks", type=int, default=None)
    parser.add_argument(
        "--member",
        type=lambda text: wire.from_json(GroupMember, wire.parse_json(text), "member"),
        help="index and addresses in a group of processes, in JSON",
    )
    parser.add_argument("--launch", type=LaunchId.parse, required=True)
    parser.add_argument("--parent", type=int, required=True, help="process id of the driver")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of the channel")
    return parser


if __name__ == "__main__":
    main()
