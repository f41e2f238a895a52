"""Where it is measured: what a probe finds, the key that baselines are found by.

Only `EnvironmentKey` is ever matched; whatever else is recorded here is printed, never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .words import Clock, Device

# How many devices a CPU is split into where nobody says.
VIRTUAL_RANKS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSet:
    """The devices of one class that a framework reaches in one process.

    `ranks` is how many there are; `any_ranks` says that any other number can be had (virtual
    CPU devices). `program` and `allocator` are how this framework would measure on them;
    `clocks` are those that can be read, the default first. `strategies` maps a strategy's name
    as asked for to its true name.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What one framework's probe found on this machine."""

    framework: str
    framework_path: str
    devices: tuple[DeviceSet, ...]
    missing: Mapping[str, str]
    versions: Mapping[str, str]
    flags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentKey:
    """Where a time holds: baselines are found by it and by nothing else."""

    device_kind: str
    ranks: int
    cores: int | None = None
    mesh: str = ""
    hosts: int = 1
    processes: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Where a session measured. Only `key` is ever matched; the rest is recorded and printed."""

    key: EnvironmentKey
    device: Device
    why: str
    versions: Mapping[str, Mapping[str, str]]
    flags: Mapping[str, str] = field(default_factory=dict)
    framework_paths: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    load: float | None = None
    clock_mhz: float | None = None
