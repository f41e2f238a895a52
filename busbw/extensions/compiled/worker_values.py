"""What is compiled, by which compiler, and what comes of it; workers know these values, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.extensions.program.worker_values import Difference, Use
from busbw.model.case import Case, Spec
from busbw.model.field_types import Count, Date, Natural
from busbw.model.machine import DeviceSet
from busbw.model.verdict import Verdict
from busbw.model.words import Device, plural

# The variable with the release of a worker's compiler library, where it cannot be looked up.
RELEASE = "BUSBW_COMPILER_RELEASE"


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """What the compiler made of a Case. Bytes are those of one rank's part of the program.

    `collectives` counts those of one turn of the loop by kind, `groups` is how many groups of how
    many ranks each runs over, such as ``1x8``. `algorithm` is what the compiler published of its
    choice, empty where it published nothing. `starts`: the collective is asynchronous, started by
    one instruction and awaited by another. `around` counts by kind the other operations on the
    payload in a turn of the loop, `around_loop` those outside of the loop, once in a call. Of a
    program of the user's `uses` are all its collectives and `mesh` the extents of its axes by name;
    there are no groups of them all.
    """

    collectives: Mapping[str, Natural]
    groups: str = ""
    algorithm: Mapping[str, str] = field(default_factory=dict)
    starts: bool = False
    around: Mapping[str, Natural] = field(default_factory=dict)
    around_loop: Mapping[str, Natural] = field(default_factory=dict)
    argument_bytes: Natural = 0
    output_bytes: Natural = 0
    alias_bytes: Natural = 0
    temporary_bytes: Natural = 0
    peak_bytes: Natural = 0
    uses: tuple[Use, ...] = ()
    mesh: Mapping[str, Count] = field(default_factory=dict)

    @property
    def algorithm_text(self) -> str:
        """Return what the compiler published of the algorithm, or a number of collectives."""
        if not self.groups:
            return f"{plural(sum(self.collectives.values()), 'collective')} per step"
        if not self.algorithm:
            return "not published"
        names = dict.fromkeys((*_FIRST, *sorted(self.algorithm)))
        words = [(name, self.algorithm[name]) for name in names if name in self.algorithm]
        return ", ".join(text if name in _NAMELESS else f"{name} {text}" for name, text in words)


# What is shown first of an algorithm, and what is shown without its name.
_FIRST = ("strategy", "emitter", "colors", "phases")
_NAMELESS = ("strategy", "emitter", "offload")


@dataclass(frozen=True, kw_only=True)
class CompiledSpec(Spec):
    """A Spec that is compiled for the chips of a `topology`, by `compiler` ("": the only one)."""

    topology: str
    compiler: str = ""

    @property
    def id(self) -> str:
        """Return the pytest id, which begins with the topology, such as ``v5e:2x4``."""
        return "-".join(filter(None, (self.topology, self.compiler, super().id)))

    @property
    def kind_names(self) -> tuple[str, ...]:
        return (self.topology, *super().kind_names)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaseline:
    """What a compiler made of a Case when it was stored; no program if it was out of memory."""

    case: Case
    compiled: Compiled | None
    date: Date
    release: str
    needed_bytes: Natural | None = None
    available_bytes: Natural | None = None

    @property
    def text(self) -> str:
        """Return the algorithm in words."""
        return self.compiled.algorithm_text if self.compiled else "out of memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What the compiler `release` made of a case `now`, and what is different from before.

    There is no `now` where it failed or nothing was tried, and no `baseline` where nothing is
    stored.
    """

    release: str = ""
    now: Compiled | None = None
    baseline: CompiledBaseline | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CompiledVerdict(Verdict):
    """The answer for a case that was compiled."""

    spec: CompiledSpec
    program: Program = field(default_factory=Program)

    @property
    def family_name(self) -> str:
        return f"{self.spec.topology}: {super().family_name}"

    def explain(self) -> str:
        """Return the headline, the differences, and what the compiler says of a failure."""
        lines = [
            self.headline(),
            *("    " + difference.text for difference in self.program.differences),
        ]
        if self.failure is not None:
            lines.append(f"{self.failure.kind.value}: {self.failure.message}")
            lines += ["    " + row for row in self.failure.log.splitlines()]
        return "\n".join(lines)
