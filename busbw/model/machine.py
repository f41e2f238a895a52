"""What cases are measured on: meshes of ranks, devices, their key, protocols.

Only `EnvironmentKey` and `Protocol` are ever matched; whatever else a probe finds is
recorded and printed, never compared. Figures of chips are in `busbw.hardware`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import Annotated

from .limits import Count, NotNegative, Positive, check_some
from .words import Clock, Device

# How many devices a CPU is split into by default.
VIRTUAL_RANKS = 4

# The name of the host's CPU quota among the flags of an environment.
CPU_QUOTA = "CPU quota"

# A mesh is a shape that ranks are laid out in: 2x4 has the axes x (2) and y (4),
# hosts:2,devices:4 has named ones, between hosts and within one. Ranks are numbered with the last
# axis running fastest, as `jax.sharding.Mesh` lays devices out.

# Of a shape such as 2x4.
AXES = "xyzuvw"
# Of a shape with names, from the slowest network to the fastest link.
NAMED_AXES = ("slices", "hosts", "processes", "devices")
_NAMED = "hosts:2,devices:4"


def axes_of(mesh: str) -> Mapping[str, int]:
    """Return extents by the names of axes, in order. Raises ValueError for what is no mesh."""
    if ":" in mesh:
        names: Sequence[str] = NAMED_AXES
        words = [part.strip() for part in mesh.split(",")]
        pairs = [(name, extent) for name, _, extent in (word.partition(":") for word in words)]
        form = f"{', '.join(names)}, each once and with a whole number from 1, such as {_NAMED}"
    else:
        names, words = AXES, mesh.split("x")
        pairs = list(zip(names, words))
        form = (
            f"up to {len(names)} whole numbers from 1, joined by x, such as 2x4, or named axes "
            f"such as {_NAMED}"
        )
    extents = {name: extent for name, extent in pairs if name in names and _is_extent(extent)}
    if len(extents) != len(words):
        raise ValueError(f"{mesh[:60]!r} is not a mesh; expected {form}")
    return {name: int(extents[name]) for name in names if name in extents}


def extents_of(mesh: str) -> tuple[int, ...]:
    """Return (2, 4) for ``2x4`` and for ``hosts:2,devices:4``. Raises ValueError for no mesh."""
    return tuple(axes_of(mesh).values())


def _is_extent(word: str) -> bool:
    return word.isascii() and word.isdecimal() and int(word) > 0


def mesh_text(mesh: str) -> str:
    """Return the canonical text of a mesh: names in their order, no spaces. Raises ValueError."""
    axes = axes_of(mesh)
    if ":" in mesh:
        return ",".join(f"{name}:{extent}" for name, extent in axes.items())
    return "x".join(map(str, axes.values()))


def check_mesh(mesh: str) -> None:
    """Raise ValueError for what is no mesh, as documents have it; empty is accepted."""
    if len(mesh) > 60:
        raise ValueError(f"expected one such as 2x4, got {mesh[:60]!r}...")
    if mesh:
        axes_of(mesh)


Mesh = Annotated[str, check_mesh]


def file_name_of(mesh: str) -> str:
    """Return a part of a file's name or a test's id, such as ``2x4`` or ``hosts2xdevices4``."""
    return mesh.replace(":", "").replace(",", "x")


def names_of(axes: str) -> tuple[str, ...]:
    """Return (x, z) for ``xz``, and (hosts, devices) for ``hosts,devices``."""
    words = tuple(axes.split(","))
    return words if set(words) <= set(NAMED_AXES) else tuple(axes)


def check_axes(axes: str, mesh: str) -> str:
    """Return ``xz`` for ``x,z``. Raises ValueError for no axis of `mesh`, and groups of one."""
    extents = axes_of(mesh)
    names = [word.strip() for word in axes.split(",")]
    for name in names:
        if name not in extents:
            raise ValueError(f"{name!r} is no axis of the mesh {mesh}; it has {', '.join(extents)}")
    if math.prod(extents[name] for name in set(names)) < 2:
        raise ValueError(f"{axes!r}: one rank along these axes of {mesh} is not a collective")
    between = "," if ":" in mesh else ""
    return between.join(name for name in extents if name in names)


def groups_of(mesh: str, axes: str, ranks: int) -> tuple[tuple[int, ...], ...]:
    """Return the ranks of each group along `axes` of `mesh`, or one group of all without axes."""
    if not axes:
        return (tuple(range(ranks)),)
    extents, inner = axes_of(mesh), names_of(axes)
    outer = [position for position, name in enumerate(extents) if name not in inner]
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, coordinates in enumerate(itertools.product(*map(range, extents.values()))):
        groups.setdefault(tuple(coordinates[position] for position in outer), []).append(rank)
    return tuple(tuple(group) for group in groups.values())


def parts_of(mesh: str) -> int:
    """Return into how many equal parts in a row the axes but ``devices`` cut the ranks."""
    return math.prod(extent for name, extent in axes_of(mesh).items() if name in NAMED_AXES[:-1])


def check_layout(mesh: str, hosts: int, processes: int) -> None:
    """Raise ValueError, with both numbers, for a mesh of other `hosts` or `processes`.

    On one host each process stands for a host.
    """
    axes = axes_of(mesh)
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
    """How a time is taken: the clock, the timed program, the allocator's settings.

    Times of different protocols are never compared. As text: ``host/chain2-two-buffers/hugepages``.
    """

    clock: Clock
    program: str = ""
    allocator: str = ""

    @classmethod
    def parse(cls, text: str) -> Protocol:
        """Parse the text of a protocol. Raises ValueError if it begins with no clock."""
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
    """What a time was measured on; baselines are found by it and by nothing else.

    `shared`: several ranks are on one device, each in a process of its own.
    """

    device_kind: Annotated[str, _check_kind]
    ranks: Count
    cores: Count | None = None
    mesh: Mesh = ""
    hosts: Count = 1
    processes: Count = 1
    shared: bool = False

    @property
    def folder(self) -> PurePosixPath:
        """Where its files lie, such as ``amd-epyc-2c/4r`` or ``tpu-v5-lite/16r-4x4-4h4p``.

        On a device that two processes share it is such as ``nvidia-h200/2r-1h2p-shared``.
        """
        kind = slug(self.device_kind) + (f"-{self.cores}c" if self.cores is not None else "")
        ranks = f"{self.ranks}r" + (f"-{file_name_of(self.mesh)}" if self.mesh else "")
        if (self.hosts, self.processes) != (1, 1):
            ranks += f"-{self.hosts}h{self.processes}p"
        ranks += "-shared" if self.shared else ""
        return PurePosixPath(kind, ranks)


def slug(text: str) -> str:
    """Return `text` as a file name: in lower case, and a hyphen for other than letters and digits.

    Dots stay, and several characters in a row are one hyphen.
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def _check_kind(kind: str) -> None:
    """Raise ValueError for a kind of device that gives no name of a folder."""
    if len(kind) > 100 or not re.search("[a-z0-9]", kind.lower()):
        raise ValueError(f"expected up to 100 characters, got {kind[:60]!r}")


def _check_word(name: str) -> None:
    """Raise ValueError for a strategy that cannot be a part of the name of a file."""
    if not name.replace("_", "").isalnum():
        raise ValueError(f"expected words, got {name[:60]!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSet(EnvironmentKey):
    """The devices of one class that a framework reaches in one process.

    `ranks` is how many there are; `any_ranks`: any other number is possible, too (virtual CPU
    devices). `program` and `allocator` are how this framework would measure on them; `clocks` are
    those that can be read, the default first. `strategies` maps the name of a strategy in options
    to its true name.
    """

    device: Device
    any_ranks: bool
    program: str
    strategies: Mapping[str, Annotated[str, _check_word]]
    clocks: Annotated[tuple[Clock, ...], check_some] = (Clock.HOST,)
    allocator: str = ""

    @property
    def key(self) -> EnvironmentKey:
        names = [part.name for part in fields(EnvironmentKey)]
        return EnvironmentKey(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What one framework's probe found on this machine.

    `least_memory_bytes` is the memory below which no case fits, as the process itself takes it.
    `hosts` has the name of each process's host.
    """

    framework: str
    framework_path: str
    devices: tuple[DeviceSet, ...]
    missing: Mapping[str, str]
    versions: Mapping[str, str]
    flags: Mapping[str, str] = field(default_factory=dict)
    least_memory_bytes: int | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Where a session measured. Only `key` is ever matched; the rest is recorded and printed.

    `reason` is why this device was chosen, `not_found` why each other class of device was not.
    `flags` are environment variables, and the CPU quota if there is one. `host` is the name of the
    host that measured. `changed` is what options changed on purpose, such
    as ``candidate: XLA_FLAGS=--a; reference: none``; nothing in an ordinary session.
    """

    key: EnvironmentKey
    device: Device
    reason: str
    versions: Mapping[str, Mapping[str, str]]
    flags: Mapping[str, str] = field(default_factory=dict)
    framework_paths: Mapping[str, str] = field(default_factory=dict)
    not_found: tuple[str, ...] = ()
    host: str = ""
    commit: str = ""
    load: NotNegative | None = None
    clock_mhz: Positive | None = None
    changed: str = ""
