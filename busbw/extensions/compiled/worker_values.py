"""Values that describe topologies, compilers and compiled programs. Workers use them, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.extensions.program.worker_values import CollectiveUse, Difference
from busbw.model.case import Case, CaseSpec
from busbw.model.field_types import Date, Natural
from busbw.model.machine import DeviceSet
from busbw.model.verdict import Verdict
from busbw.model.words import Device, plural

# The variable that tells a worker the release of its compiler, which a bare library does not say.
RELEASE_VARIABLE = "BUSBW_COMPILER_RELEASE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """Chips for which a program can be compiled without having them, such as ``v5e:2x4``.

    `layout` is the topology in the notation of the compiler. `chip_config` is libtpu's name for a
    way to use the cores of a chip; empty for its default. `target_config` describes a GPU to XLA.
    `memory_bytes` is the memory of a GPU; None for a TPU, because libtpu knows the memory.
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
    """A compiler for a topology, as it is installed for a worker.

    `release` is the name and version of its package, such as ``libtpu 0.0.42.1``. `build` is the
    compiler's own description of its version: two compilers are the same if their `build` is equal.
    `versions` are the versions of packages, and `flags` the environment variables that affect the
    compiler. `devices` are the devices of the topology as the framework sees them. If there is no
    compiler, `devices` is None, and `missing` is the reason.
    """

    topology: str
    release: str = ""
    build: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    devices: DeviceSet | None = None
    missing: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledProgram:
    """The program that a compiler made for a Case. Sizes are the bytes that a rank needs.

    `collectives` counts the collectives in a turn of the loop by kind. `groups` is the number of
    groups in which each collective runs, and the number of ranks in a group, such as ``1x8``.
    `algorithm` maps the properties of the algorithm that the compiler publishes to their values; it
    is empty if the compiler publishes nothing. `starts` says whether the collective is
    asynchronous: an instruction starts it, and another instruction waits for its end. `around`
    counts, by kind, the other operations on the payload in a turn of the loop. `around_loop` counts
    such operations outside the loop, which run once in a call.

    `temporary_bytes` is the memory for temporary values. `peak_bytes` is the largest amount of
    memory in use at any moment; 0 if the compiler does not report it.

    For a user's program `uses` are all its collectives, `collectives` counts the collectives in a
    step, and `groups` is empty.
    """

    collectives: Mapping[str, Natural]
    groups: str = ""
    algorithm: Mapping[str, str] = field(default_factory=dict)
    starts: bool = False
    around: Mapping[str, Natural] = field(default_factory=dict)
    around_loop: Mapping[str, Natural] = field(default_factory=dict)
    temporary_bytes: Natural = 0
    peak_bytes: Natural = 0
    uses: tuple[CollectiveUse, ...] = ()

    @property
    def algorithm_text(self) -> str:
        """The algorithm in words; for a user's program the number of its collectives."""
        if not self.groups:
            return f"{plural(sum(self.collectives.values()), 'collective')} per step"
        if not self.algorithm:
            return "not published"
        names = dict.fromkeys((*_FIRST, *sorted(self.algorithm)))
        words = [(name, self.algorithm[name]) for name in names if name in self.algorithm]
        return ", ".join(text if name in _NAMELESS else f"{name} {text}" for name, text in words)


# The fields of an algorithm that are shown first, and the fields that are shown without a name.
_FIRST = ("strategy", "emitter", "colors", "phases")
_NAMELESS = ("strategy", "emitter", "offload")


@dataclass(frozen=True, kw_only=True)
class CompileSpec(CaseSpec):
    """A CaseSpec to be compiled for the chips of a topology; `topology` is its name.

    `compiler` is the label of the compiler; empty if the session has a single compiler.
    """

    topology: str
    compiler: str = ""

    @property
    def id(self) -> str:
        """The pytest id, which begins with the topology, such as ``v5e:2x4``."""
        return "-".join(filter(None, (self.topology, self.compiler, super().id)))

    @property
    def kind_names(self) -> tuple[str, ...]:
        return (self.topology, *super().kind_names)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaseline:
    """The program that the compiler `release` made for a Case on `date`, as it was stored.

    `compiled` is None if the program did not fit into the memory of the chip.
    """

    case: Case
    compiled: CompiledProgram | None
    date: Date
    release: str

    @property
    def text(self) -> str:
        """The algorithm in words, or ``out of memory``."""
        return self.compiled.algorithm_text if self.compiled else "out of memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledComparison:
    """The program `now` that the compiler `release` made for a case, compared with its baseline.

    `now` is None if nothing was compiled or the compiler failed. `baseline` is None if nothing is
    stored.
    """

    release: str = ""
    now: CompiledProgram | None = None
    baseline: CompiledBaseline | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CompiledVerdict(Verdict):
    """The verdict on a case that was compiled."""

    spec: CompileSpec
    program: CompiledComparison = field(default_factory=CompiledComparison)

    @property
    def family_name(self) -> str:
        return f"{self.spec.topology}: {super().family_name}"

    def explain(self) -> str:
        """Return the outcome, the failure of the compiler if it failed, and the differences."""
        differences = ("    " + difference.text for difference in self.program.differences)
        return "\n".join([super().explain(), *differences])
