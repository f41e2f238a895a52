"""What a compiler makes of a Case for a topology that need not be there, and the answer to it.

Values only. What was compiled is compared by `busbw.judge`, never timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .case import Case, Spec
from .machine import DeviceSet
from .verdict import CaseVerdict
from .words import Device


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """Chips that a program can be compiled for without them, such as ``v5e:2x4``.

    `layout` is what the compiler is told of how they lie, and `chip_config` how a TPU's cores are
    used, where that is not what its compiler takes by itself; for a GPU `target_config` describes
    the chip, and `memory_bytes` is what it has (None: the compiler knows).
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
    choice, empty where it published nothing. `starts` says that the collective is started and
    waited for apart, so that other work can go on meanwhile. `around` counts by kind what else goes
    over the payload in a turn of the loop, `around_loop` what does so once in a call.
    """

    collectives: Mapping[str, int]
    groups: str
    algorithm: Mapping[str, str] = field(default_factory=dict)
    starts: bool = False
    around: Mapping[str, int] = field(default_factory=dict)
    around_loop: Mapping[str, int] = field(default_factory=dict)
    argument_bytes: int = 0
    output_bytes: int = 0
    alias_bytes: int = 0
    temporary_bytes: int = 0
    peak_bytes: int = 0

    @property
    def algorithm_text(self) -> str:
        """The algorithm in words, such as ``StrategyRing, colors 2``."""
        if not self.algorithm:
            return "not published"
        words = [text if name in _NAMED else f"{name} {text}" for name, text in _sorted(self)]
        return ", ".join(words)


# Whose values say what they are.
_NAMED = ("strategy", "emitter", "offload")


def _sorted(compiled: Compiled) -> list[tuple[str, str]]:
    order = {name: place for place, name in enumerate(("strategy", "emitter", "colors", "phases"))}
    return sorted(compiled.algorithm.items(), key=lambda item: (order.get(item[0], 9), item[0]))


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSpec:
    """One Spec on one topology by one compiler; `compiler` is empty for the only one.

    Its id is the pytest id, such as ``v5e:2x4-jax-default-float32-1M``.
    """

    topology: str
    spec: Spec
    compiler: str = ""

    @property
    def id(self) -> str:
        """The pytest id."""
        compiler = f"-{self.compiler}" if self.compiler else ""
        return f"{self.topology}{compiler}-{self.spec.id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaseline:
    """What a compiler made of a Case when it was stored: a program, or out of memory and none."""

    case: Case
    compiled: Compiled | None
    date: str
    release: str
    needed_bytes: int | None = None
    available_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that is not as it was: what, before, and now. `fails` says that it is no small one.

    `accepted` says that it would have failed, had nobody accepted it.
    """

    what: str
    before: str
    now: str
    fails: bool
    accepted: bool = False

    @property
    def text(self) -> str:
        """Such as ``strategy: StrategyND -> StrategyRing``."""
        return f"{self.what}: {self.before or 'none'} -> {self.now or 'none'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledVerdict(CaseVerdict):
    """The answer for a Case that was compiled for one topology."""

    spec: CompileSpec
    release: str = ""
    now: Compiled | None = None
    baseline: CompiledBaseline | None = None
    differences: tuple[Difference, ...] = ()

    def explain(self) -> str:
        """The headline, both sides of what changed, and what is known of a failure."""
        lines = [self.headline(), *("    " + one.text for one in self.differences)]
        if self.failure is not None:
            lines.append(f"{self.failure.kind.value}: {self.failure.message}")
            lines += ["    " + row for row in self.failure.log.splitlines()]
        return "\n".join(lines)
