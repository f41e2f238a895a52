"""The machine and the way of measuring: meshes, devices, groups of processes, and protocols.

A baseline is looked up by its `EnvironmentKey`, and times are compared only with times of the same
`Protocol`. Other values that a probe reports are recorded and printed, never compared. A
ProcessGroupSize is a group of processes that measure together. The bandwidths of chips are in
`busbw.hardware`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import Annotated

from .field_types import Count, NotNegative, check_not_empty
from .words import Clock, DeviceClass


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessGroupSize:
    """The size of a group of processes that measure together.

    Attributes:
        processes: The number of processes; 0 for a process without a group.
        shared_devices: The number of GPUs that all processes share; 0 if each process has its own
            devices.

    """

    processes: int
    shared_devices: int = 0


# A process that is in no group has neither an index nor an address. The single process of a group
# has both.
NO_GROUP = ProcessGroupSize(processes=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupMember:
    """A process of a group, which also knows the addresses of all processes of the group.

    Attributes:
        index: The index of this process in the group.
        addresses: The address of each process, such as ``host:port``, in the order of the indices.
        hosts: The number of hosts of the group. Each host has the same number of processes, and
            their indices follow each other.
        shared_devices: The number of GPUs that all processes share; 0 if each process has its own
            devices.

    """

    index: int
    addresses: tuple[str, ...]
    hosts: int = 1
    shared_devices: int = 0

    @property
    def process_count(self) -> int:
        return len(self.addresses)

    @property
    def processes_per_host(self) -> int:
        """The number of members on each host."""
        return self.process_count // self.hosts

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of the hosts of all members, each name once; IPv6 addresses lack brackets."""
        names = (address.rpartition(":")[0].strip("[]") for address in self.addresses)
        return tuple(dict.fromkeys(names))


def group_members(
    process_group: ProcessGroupSize, addresses: Iterable[str], host_count: int = 1
) -> tuple[GroupMember, ...]:
    """Return a member for each process of `process_group`, in the order of `addresses`.

    `addresses` has an address (``host:port``) for each process. `host_count` is the number of hosts
    on which the processes run.
    """
    listed = tuple(addresses)
    return tuple(
        GroupMember(
            index=index,
            addresses=listed,
            hosts=host_count,
            shared_devices=process_group.shared_devices,
        )
        for index in range(process_group.processes)
    )


# By default a CPU is split into this many virtual devices.
DEFAULT_VIRTUAL_RANKS = 4

# A container's CPU quota changes times like a flag, so the flags of an environment include it under
# this name.
CPU_QUOTA = "CPU quota"

# A mesh is a shape in which ranks are arranged: 2x4 has the axes x (2 ranks) and y (4 ranks), and
# hosts:2,devices:4 has named axes, between hosts and within a host. Neighbours along the last axis
# have successive numbers, because `jax.sharding.Mesh` arranges devices in this way.

# The axes of a mesh such as 2x4.
LETTER_AXES = "xyzuvw"
# The axes of a mesh with named axes, from the slowest network to the fastest link.
NAMED_AXES = ("slices", "hosts", "processes", "devices")
_MAX_MESH_CHARACTERS = 60
_MESH_FORM = (
    f"up to {len(LETTER_AXES)} whole numbers from 1, joined by x, such as 2x4, or some of the axes "
    f"{', '.join(NAMED_AXES)}, each once, such as hosts:2,devices:4"
)


def axis_extents(mesh: str) -> Mapping[str, int]:
    """Return the number of ranks along each axis of `mesh`, by the name of the axis, in order.

    For ``2x4``, ``{"x": 2, "y": 4}``. Raises ValueError if `mesh` is not the text of a mesh.
    """
    if ":" in mesh:
        names: Sequence[str] = NAMED_AXES
        words = [part.strip() for part in mesh.split(",")]
        pairs = [(name, extent) for name, _, extent in (word.partition(":") for word in words)]
    else:
        names, words = LETTER_AXES, mesh.split("x")
        pairs = list(zip(names, words))
    extents = {
        name: int(extent)
        for name, extent in pairs
        if name in names and extent.isascii() and extent.isdecimal()
    }
    is_mesh = len(extents) == len(words) and all(extents.values())
    # A longer text does not fit into the name of a folder.
    if not is_mesh or len(mesh) > _MAX_MESH_CHARACTERS:
        raise ValueError(f"{mesh[:60]!r} is not a mesh; expected {_MESH_FORM}")
    return {name: extents[name] for name in names if name in extents}


def mesh_shape(mesh: str) -> tuple[int, ...]:
    """Return the extents of a mesh, such as (2, 4) for ``2x4`` and for ``hosts:2,devices:4``.

    Raises ValueError if `mesh` is not the text of a mesh.
    """
    return tuple(axis_extents(mesh).values())


def canonical_mesh(mesh: str) -> str:
    """Return `mesh` with its axes in the usual order, and without spaces.

    For example, ``devices:4, hosts:2`` becomes ``hosts:2,devices:4``. Raises ValueError if `mesh`
    is not the text of a mesh.
    """
    axes = axis_extents(mesh)
    if ":" in mesh:
        return ",".join(f"{name}:{extent}" for name, extent in axes.items())
    return "x".join(map(str, axes.values()))


def check_mesh(mesh: str) -> None:
    """Raise ValueError unless `mesh` is empty or the text of a mesh."""
    if mesh:
        axis_extents(mesh)


Mesh = Annotated[str, check_mesh]


def mesh_file_name(mesh: str) -> str:
    """Return `mesh` as file names and ids of tests contain it: ``2x4`` or ``hosts2xdevices4``."""
    return mesh.replace(":", "").replace(",", "x")


def axis_names(axes: str) -> tuple[str, ...]:
    """Return the names of the axes that the text `axes` lists.

    The names in ``xz`` are x and z; the names in ``hosts,devices`` are hosts and devices.
    """
    words = tuple(axes.split(","))
    return words if set(words) <= set(NAMED_AXES) else tuple(axes)


def canonical_axes(axes: str, mesh: str) -> str:
    """Return the text `axes` of a user in the usual form, such as ``xz`` for ``x,z``.

    If `axes` lists all axes of `mesh`, the result is empty, because collectives along all axes are
    the same as collectives without axes. Raises ValueError if `mesh` lacks one of `axes`, or has a
    single rank along `axes`.
    """
    extents = axis_extents(mesh)
    names = [word.strip() for word in axes.split(",")]
    for name in names:
        if name not in extents:
            raise ValueError(f"{name!r} is no axis of the mesh {mesh}; it has {', '.join(extents)}")
    if math.prod(extents[name] for name in set(names)) < 2:
        raise ValueError(f"{axes!r}: one rank along these axes of {mesh} is not a collective")
    between = "," if ":" in mesh else ""
    is_all = set(names) == set(extents)
    return "" if is_all else between.join(name for name in extents if name in names)


def group_ranks_along_axes(mesh: str, axes: str, ranks: int) -> tuple[tuple[int, ...], ...]:
    """Return the groups of ranks over which collectives along `axes` run.

    Ranks are numbered from 0 to `ranks` - 1. Two ranks are in the same group if they differ only in
    their positions along `axes`. If `axes` is empty, all ranks are a single group.

    The groups along ``y`` of the mesh ``2x4`` are (0, 1, 2, 3) and (4, 5, 6, 7).
    """
    if not axes:
        return (tuple(range(ranks)),)
    extents, inner = axis_extents(mesh), axis_names(axes)
    outer = [position for position, name in enumerate(extents) if name not in inner]
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, coordinates in enumerate(itertools.product(*map(range, extents.values()))):
        groups.setdefault(tuple(coordinates[position] for position in outer), []).append(rank)
    return tuple(tuple(group) for group in groups.values())


def count_device_groups(mesh: str) -> int:
    """Return the number of groups into which `mesh` divides the ranks along its outer axes.

    The number is the product of the extents of ``slices``, ``hosts`` and ``processes``. For
    ``hosts:2,devices:4`` the number is 2: the four ranks of a group differ only in their position
    along ``devices``. For a mesh such as ``2x4``, whose axes have no names, the number is 1.
    """
    return math.prod(
        extent for name, extent in axis_extents(mesh).items() if name in NAMED_AXES[:-1]
    )


def check_mesh_hosts(mesh: str, hosts: int, processes: int) -> None:
    """Raise ValueError if the axes of `mesh` contradict the number of `hosts` or of `processes`.

    With an axis ``hosts``, ``slices`` x ``hosts`` must be the number of hosts. With an axis
    ``processes``, ``slices`` x ``hosts`` x ``processes`` must be the number of processes. A missing
    axis counts as 1. The number of hosts must be divisible by ``slices``. On a single host each
    process counts as a host.
    """
    axes = axis_extents(mesh)
    counts = {"hosts": hosts if hosts > 1 else processes, "processes": processes}
    for name, count in counts.items():
        outer = NAMED_AXES[: NAMED_AXES.index(name) + 1]
        extent = math.prod(axes.get(axis, 1) for axis in outer)
        if name in axes and extent != count:
            raise ValueError(f"a mesh of {mesh} has {extent} {name}, there are {count}")
    if "slices" in axes and counts["hosts"] % axes["slices"]:
        raise ValueError(f"a mesh of {mesh} has {axes['slices']} slices, there are {hosts} hosts")


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """The way in which a time is measured; times of different protocols are never compared.

    The text of a protocol is, for example, ``host/chain2-two-buffers/hugepages``.

    Attributes:
        clock: The clock that reads the time.
        program: The name of the form of the timed program; may be empty.
        allocator: The name of the settings of memory; may be empty.

    """

    clock: Clock
    program: str = ""
    allocator: str = ""

    @classmethod
    def parse(cls, text: str) -> Protocol:
        """Return the protocol with this `text`. Raise ValueError if it begins with no clock."""
        clock, _, settings = text.partition("/")
        if clock not in list(Clock):
            raise ValueError(
                f"expected a clock first, one of {', '.join(Clock)}, such as host/..., "
                f"got {text[:60]!r}"
            )
        program, _, allocator = settings.rpartition("/") if "/" in settings else (settings, "", "")
        return cls(clock=Clock(clock), program=program, allocator=allocator)

    def __str__(self) -> str:
        return "/".join(filter(None, (self.clock.value, self.program, self.allocator)))


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentKey:
    """The devices on which a time was measured: the only key by which a baseline is looked up.

    Attributes:
        device_kind: The name of the chip, such as ``TPU v5 lite``.
        cores: The number of cores of a CPU; None on accelerators.
        ranks: The number of ranks.
        mesh: The shape in which the ranks are arranged. By default this is the shape of the slice
            of TPUs; empty if there is no shape.
        hosts: The number of hosts.
        processes: The number of processes on all hosts together.
        shared: Whether several ranks use the same device, each in a process of its own.

    """

    device_kind: Annotated[str, _check_device_kind]
    ranks: Count
    cores: Count | None = None
    mesh: Mesh = ""
    hosts: Count = 1
    processes: Count = 1
    shared: bool = False

    @property
    def folder(self) -> PurePosixPath:
        """The relative path of the folder of baseline files, such as ``tpu-v5-lite/16r-4x4-4h4p``.

        The path is ``amd-epyc-2c/4r`` for a CPU with two cores, and ``nvidia-h200/2r-1h2p-shared``
        for a GPU that two processes share (r: ranks, c: cores, h: hosts, p: processes).
        """
        kind = slug(self.device_kind) + (f"-{self.cores}c" if self.cores is not None else "")
        ranks = f"{self.ranks}r" + (f"-{mesh_file_name(self.mesh)}" if self.mesh else "")
        if (self.hosts, self.processes) != (1, 1):
            ranks += f"-{self.hosts}h{self.processes}p"
        ranks += "-shared" if self.shared else ""
        return PurePosixPath(kind, ranks)


def slug(text: str) -> str:
    """Return `text` in lower case as a part of a file name, such as ``tpu-v5-lite``.

    A hyphen replaces each series of characters other than letters, digits and dots.
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def _check_device_kind(kind: str) -> None:
    """Raise ValueError if the name of a folder cannot be made of `kind`, or `kind` is too long."""
    if len(kind) > 100 or not re.search("[a-z0-9]", kind.lower()):
        raise ValueError(f"expected up to 100 characters, got {kind[:60]!r}")


def _check_strategy_characters(name: str) -> None:
    """Raise ValueError if a strategy has characters other than letters, digits and underscores."""
    if not name.replace("_", "").isalnum():
        raise ValueError(f"expected words, got {name[:60]!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSet(EnvironmentKey):
    """The devices of a class (CPU, GPU or TPU) that a framework reaches.

    Attributes:
        device: The class of the devices.
        ranks: The number of devices.
        any_ranks: Whether the devices are virtual, so that a case may use any number of them.
        program: The form of the programs that measure on these devices, a part of the protocol.
        allocator: The settings of memory on these devices, a part of the protocol.
        clocks: The clocks that can be read; the first clock is the default.
        strategies: Maps each name that users can select, such as ``default``, to a strategy, such
            as ``psum``.

    """

    device: DeviceClass
    any_ranks: bool
    program: str
    strategies: Mapping[str, Annotated[str, _check_strategy_characters]]
    clocks: Annotated[tuple[Clock, ...], check_not_empty] = (Clock.HOST,)
    allocator: str = ""

    @property
    def key(self) -> EnvironmentKey:
        """The environment key of a case that runs on all these devices."""
        names = [part.name for part in fields(EnvironmentKey)]
        return EnvironmentKey(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """The devices that a framework reaches on this machine, and the framework's versions.

    Attributes:
        framework: The name of the framework.
        framework_path: The folder of the framework.
        devices: The devices of each class that the framework reaches.
        reason_by_missing_device: The reason why each other class of device is missing, by class.
        versions: The versions of the framework's packages, by the name of the package.
        flags: The values of the recorded environment variables, by the name of the variable.
        process_hosts: The name of the host of each process, in the order of the processes; empty
            for a process without a group.

    """

    framework: str
    framework_path: str
    devices: tuple[DeviceSet, ...]
    reason_by_missing_device: Mapping[str, str]
    versions: Mapping[str, str]
    flags: Mapping[str, str] = field(default_factory=dict)
    process_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """The machine and the software of a session. Baselines are matched by `key` only.

    Attributes:
        key: The environment key.
        device: The class of device on which the session measures.
        reason: The reason why this class was chosen.
        versions: The versions of each framework's packages, by framework and by package.
        flags: The values of environment variables, by name, and the CPU quota if there is one.
        framework_paths: The folder of each framework, by framework.
        not_found: The reason why each other class of device was not chosen.
        host: The name of the host that measured.
        commit: The commit of the working directory.
        load: The host's load average of the last minute; None if unknown.
        changed: The variables and the injection that options add, such as ``XLA_FLAGS=--a``; empty
            in an ordinary session.

    """

    key: EnvironmentKey
    device: DeviceClass
    reason: str
    versions: Mapping[str, Mapping[str, str]]
    flags: Mapping[str, str] = field(default_factory=dict)
    framework_paths: Mapping[str, str] = field(default_factory=dict)
    not_found: tuple[str, ...] = ()
    host: str = ""
    commit: str = ""
    load: NotNegative | None = None
    changed: str = ""
