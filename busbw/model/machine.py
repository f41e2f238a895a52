"""What cases are measured on or compiled for: devices, their key, protocols.

What a framework's probe or a compiler finds, and the key that baselines are found by. Only
`EnvironmentKey` and `Protocol` are ever matched; whatever else is recorded here is printed, never
compared. Figures of chips are in `busbw.hardware`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from .mesh import file_name_of
from .words import Clock, Device

# How many devices a CPU is split into by default.
VIRTUAL_RANKS = 4


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
        """The Protocol that `text` stands for. Raises ValueError if it begins with no clock."""
        clock, _, rest = text.partition("/")
        known = [one.value for one in Clock]
        if clock not in known:
            raise ValueError(
                f"expected a clock first, one of {', '.join(known)}, such as host/..., "
                f"got {text[:60]!r}"
            )
        program, _, allocator = rest.rpartition("/") if "/" in rest else (rest, "", "")
        return cls(clock=Clock(clock), program=program, allocator=allocator)

    @property
    def text(self) -> str:
        return "/".join(filter(None, (self.clock.value, self.program, self.allocator)))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentKey:
    """What a time was measured on; baselines are found by it and by nothing else."""

    device_kind: str
    ranks: int
    cores: int | None = None
    mesh: str = ""
    hosts: int = 1
    processes: int = 1

    @property
    def folder(self) -> PurePosixPath:
        """Where its files lie, such as ``amd-epyc-2c/4r`` or ``tpu-v5-lite/16r-4x4-4h4p``."""
        kind = slug(self.device_kind) + (f"-{self.cores}c" if self.cores is not None else "")
        ranks = f"{self.ranks}r" + (f"-{file_name_of(self.mesh)}" if self.mesh else "")
        if (self.hosts, self.processes) != (1, 1):
            ranks += f"-{self.hosts}h{self.processes}p"
        return PurePosixPath(kind, ranks)


def slug(text: str) -> str:
    """`text` as a file name: lower case, everything but letters, digits and dots is one hyphen."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSet:
    """The devices of one class that a framework reaches in one process.

    `ranks` is how many there are; `any_ranks`: any other number is possible, too (virtual CPU
    devices). `program` and `allocator` are how this framework would measure on them; `clocks` are
    those that can be read, the default first. `strategies` maps a strategy's name as asked for to
    its true name.
    """

    device: Device
    device_kind: str
    ranks: int
    any_ranks: bool
    program: str
    strategies: Mapping[str, str]
    clocks: tuple[Clock, ...] = (Clock.HOST,)
    allocator: str = ""
    mesh: str = ""
    cores: int | None = None
    hosts: int = 1
    processes: int = 1

    @property
    def key(self) -> EnvironmentKey:
        return EnvironmentKey(
            device_kind=self.device_kind,
            ranks=self.ranks,
            cores=self.cores,
            mesh=self.mesh,
            hosts=self.hosts,
            processes=self.processes,
        )


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

    `why` is why this device was chosen, `not_found` why each that was looked for before was not.
    `host` is the name of the host that measured. `changed` is what options changed on purpose, such
    as ``candidate: XLA_FLAGS=--a; reference: none``; nothing in an ordinary session.
    """

    key: EnvironmentKey
    device: Device
    why: str
    versions: Mapping[str, Mapping[str, str]]
    flags: Mapping[str, str] = field(default_factory=dict)
    framework_paths: Mapping[str, str] = field(default_factory=dict)
    not_found: tuple[str, ...] = ()
    host: str = ""
    commit: str = ""
    load: float | None = None
    clock_mhz: float | None = None
    changed: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """Chips that a program can be compiled for without having them, such as ``v5e:2x4``.

    `layout` is their topology in the compiler's notation, and `chip_config` how a TPU's cores are
    used, where that is not the compiler's default; for a GPU `target_config` describes the chip,
    and `memory_bytes` is its memory (None: the compiler knows).
    """

    name: str
    device: Device
    device_kind: str
    layout: str
    ranks: int
    hosts: int = 1
    chip_config: str = ""
    target_config: str = ""
    memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """A compiler as one worker has it for one topology.

    `release` is the version of its package, such as ``libtpu 0.0.42.1``, `build` what it says of
    itself, which decides whether two compilers are the same. `devices` are the topology's as the
    framework sees them; None where `missing` says why there is no compiler.
    """

    topology: str
    release: str = ""
    build: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    devices: DeviceSet | None = None
    missing: str = ""
