"""Find the devices and versions that a session measures, by a probe of each framework."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from busbw import extensions, grid
from busbw.driver.executor import Executor, probe
from busbw.driver.schedules import Side
from busbw.driver.transport import HostError, WorkerSpec
from busbw.frameworks import FRAMEWORKS
from busbw.grid import MeasuredDevices
from busbw.hardware import has_tpu_chips
from busbw.model import variables
from busbw.model.case import CaseSpec, GridError
from busbw.model.machine import NO_GROUP, Environment, EnvironmentKey, Probe, ProcessGroupSize
from busbw.model.words import DeviceClass, payload_text

from .command_line import how_to_install
from .option import UsageError, as_usage_error
from .options import Options
from .state import CollectedSession, Machine

# How many processes share a single GPU: a collective needs two ranks, and busbw uses no more.
_PROCESSES_OF_SHARED_GPU = 2
_SHARED_GPU_TEXT = (
    "one GPU found, and a single rank is no collective: 2 processes share it; NCCL treats "
    "processes as hosts: not the bandwidth of a GPU or of its links"
)


def check_options_on_host(collected_session: CollectedSession) -> None:
    """Raise UsageError if an option cannot be used on this host or with the selected cases.

    Nothing is probed or started. So this check can be done before the wait for the machine's lock,
    which another session may hold for many minutes, and the user sees an error at once.
    """
    options = collected_session.options
    sizes = sorted({spec.payload_bytes for spec in collected_session.specs})
    for size in set(options.inject.payloads if options.inject else ()).difference(sizes):
        # An injection into no case would be a trial that tries nothing, and is green.
        expected = ", ".join(map(payload_text, sizes))
        raise UsageError(
            f"--inject: expected a selected payload ({expected}), got {payload_text(size)}"
        )
    with as_usage_error(ValueError):
        for check in extensions.load_declared_functions("check_host"):
            check(options, has_tpu_chips())


def find_machine(
    collected_session: CollectedSession, executor: Executor
) -> tuple[Options, Machine]:
    """Probe the devices to measure on; return the options to measure with, and the Machine.

    A probe starts a worker of each selected framework. The returned options are the options of
    `collected_session`. If two processes must share a single GPU, the returned options say so.

    Raises:
        UsageError: The requested devices or frameworks are missing.
        HostError: A worker cannot be started, or does not reply.

    """
    options = collected_session.options
    selected = dict.fromkeys(spec.framework for spec in collected_session.specs)
    absent = {
        name: f"not installed here; {how_to_install(name)}"
        for name in selected
        if name in options.absent_frameworks
    }
    frameworks = [name for name in selected if name not in absent]
    if not frameworks:
        raise UsageError("; ".join(f"{name} is {reason}" for name, reason in absent.items()))
    probes = [_probe_framework(options, name, options.device, executor) for name in frameworks]
    if _must_share_gpu(options, probes):
        options = replace(
            options,
            device=DeviceClass.GPU,
            processes=_PROCESSES_OF_SHARED_GPU,
            ranks=_PROCESSES_OF_SHARED_GPU,
            shared_devices=1,
        )
        for index, alone in enumerate(probes):
            if FRAMEWORKS[alone.framework].can_share_devices:
                probes[index] = _probe_framework(
                    options, alone.framework, DeviceClass.GPU, executor
                )
    with as_usage_error(GridError, where=f"--device={options.device}: " if options.device else ""):
        target = grid.choose_devices(
            device=options.device,
            ranks=options.ranks,
            probes=probes,
            named_frameworks=frameworks if options.names_frameworks else (),
        )
    target = replace(
        target,
        reason=_SHARED_GPU_TEXT if options.shared_devices else target.reason,
        unreached={**target.unreached, **absent},
    )
    return options, Machine(target=target, probes=tuple(probes))


def _must_share_gpu(options: Options, probes: Sequence[Probe]) -> bool:
    """Tell whether two processes must share a single GPU, so that a collective has two ranks.

    The result is True if `probes` found a GPU, but neither a second GPU nor several chips of a TPU.
    No option may request another device, several processes, other hosts, or a number of ranks other
    than two.
    """
    if (
        options.processes > 1
        or options.remote is not None
        or options.device not in (None, DeviceClass.GPU)
        or options.ranks not in (None, _PROCESSES_OF_SHARED_GPU)
    ):
        return False
    # By default a TPU is used before a GPU, and several GPUs need not be shared.
    attached = [
        (FRAMEWORKS[probe.framework].can_share_devices, devices)
        for probe in probes
        for devices in probe.devices
        if devices.device is not DeviceClass.CPU
    ]
    is_gpu = any(shares and devices.device is DeviceClass.GPU for shares, devices in attached)
    return is_gpu and all(devices.ranks == 1 for _, devices in attached)


def add_reference_probes(
    options: Options, machine: Machine, frameworks: Sequence[str], executor: Executor
) -> Machine:
    """Return `machine` with a probe of each of `frameworks` in the reference stack.

    Raises UsageError if a worker does not reply, or if the two stacks are the same: both load a
    framework from the same files, and no option changes one of the stacks.
    """
    device = machine.target.device
    is_changed = options.against_env or options.try_env
    with as_usage_error(HostError, where="the reference: "):
        references = tuple(
            _probe_framework(options, name, device, executor, Side.REFERENCE) for name in frameworks
        )
    paths = {probe.framework: probe.framework_path for probe in machine.probes}
    for reference in references:
        name = reference.framework
        path = reference.framework_path
        may_be_same = FRAMEWORKS[name].is_scripted or is_changed or options.inject is not None
        if name in options.against and path == paths[name] and not may_be_same:
            stacks = f"{options.against[name]} and {interpreter_of_framework(options, name)}"
            raise UsageError(f"--against: expected two stacks, but {stacks} use {path}")
    return replace(machine, references=references)


def _probe_framework(
    options: Options,
    framework: str,
    device: DeviceClass | None,
    executor: Executor,
    side: Side = Side.CANDIDATE,
) -> Probe:
    """Start a worker of `framework`, and return the devices and versions that the worker finds.

    `device` is the class of device to look for, None for all classes. `side` says whether the
    worker runs in the candidate stack or in the reference stack. Raises HostError if the worker
    does not reply.
    """
    worker_spec = worker_spec_of(options, framework, side, device=device, ranks=options.ranks)
    return probe(worker_spec, executor)


def interpreter_of_framework(options: Options, framework: str) -> str:
    """Return the path of the Python interpreter that measures `framework` in the candidate stack.

    If --python names no interpreter of `framework`, this is the interpreter of this process.
    """
    return options.python.get(framework, sys.executable)


def worker_spec_of(
    options: Options,
    framework: str,
    side: Side,
    *,
    device: DeviceClass | None = None,
    ranks: int | None = None,
) -> WorkerSpec:
    """Return a WorkerSpec, which says how to start workers of `framework` in the stack `side`.

    Args:
        options: The options of the session.
        framework: The framework that the workers import.
        side: The stack of the workers: the candidate or, with two stacks, the reference.
        device: The class of device to use; None to let the worker look for all classes.
        ranks: The number of ranks of all processes together; None for all devices, or for the
            default number on a CPU.

    """
    worker_spec = WorkerSpec(
        python=interpreter_of_framework(options, framework),
        framework=framework,
        device=device.value if device else "",
        ranks=ranks,
        cluster=NO_GROUP
        if options.processes == 1
        else ProcessGroupSize(processes=options.processes, shared_devices=options.shared_devices),
        environment=options.try_env,
        default_variables=FRAMEWORKS[framework].environment,
    )
    if side is Side.CANDIDATE:
        return worker_spec
    stack = options.stacks.get(framework)
    home = os.path.expanduser("~")
    if stack is None:
        return replace(
            worker_spec,
            python=options.against.get(framework, worker_spec.python),
            environment=options.against_env,
        )
    flags = {name: variables.expand_homes(value, home) for name, value in stack.flags.items()}
    return replace(
        worker_spec,
        python=stack.python,
        environment=flags,
        unset_variables=tuple(variables.STACK_VARIABLES),
    )


def key_of_all_devices(target: MeasuredDevices, framework: str) -> EnvironmentKey:
    """Return the environment key of collectives of `framework` over all devices of `target`."""
    return target.key(CaseSpec(framework=framework, payload_bytes=1))


def make_environment(options: Options, machine: Machine, key: EnvironmentKey | None) -> Environment:
    """Return the Environment of a session: the devices, versions and flags from the probes.

    `key` is the environment key to record; None means the key of collectives over all devices.
    """
    target = machine.target
    reached = [probe for probe in machine.probes if probe.framework in target.device_sets]
    return Environment(
        key=key or key_of_all_devices(target, reached[0].framework),
        device=target.device,
        reason=target.reason,
        versions={probe.framework: probe.versions for probe in reached},
        flags={name: value for probe in reached for name, value in probe.flags.items()},
        framework_paths={probe.framework: probe.framework_path for probe in reached},
        not_found=target.not_found,
        host=platform.node(),
        commit=_commit_of_current_folder(),
        load=os.getloadavg()[0],
        changed=_stack_changes_text(options),
    )


def _stack_changes_text(options: Options) -> str:
    """Return a text on the changes that options make to the stacks, such as ``XLA_FLAGS=--x``.

    The changes are environment variables, and a loss that is injected on purpose. Values of
    variables that may be secrets are hidden. The text is empty if no option changes a stack.
    """
    texts = []
    for side, environment in (("", options.try_env), ("reference: ", options.against_env)):
        recorded = variables.recorded_variables(environment, os.path.expanduser("~"))
        texts += [
            f"{side}{name}={recorded.get(name, variables.HIDDEN_VALUE)}" for name in environment
        ]
    texts += [f"injected {options.inject.text}"] if options.inject else []
    return ", ".join(texts)


def _commit_of_current_folder() -> str:
    """Return the git commit of the current folder, 12 hex digits; empty if unknown."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        git = subprocess.run(command, capture_output=True, check=False, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return git.stdout.strip() if git.returncode == 0 else ""
