"""A launch: how hard it measures, what names it, what it returned.

A Plan and an Injection never change what a case is. A launch returns a Run or a Failure; a
Measurement has one of them for each launch. `busbw.judge` decides what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from .case import Case
from .limits import AtLeast1, Natural, NotNegative, Positive, Seconds, check_some
from .words import Clock, Detection, Extra, FailureKind, payload_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How hard to measure. Never changes what is measured.

    A case is sampled until it has `samples` samples, or at least two and `budget_s` seconds
    of sampling are over.
    """

    launches: AtLeast1 = 3
    samples: AtLeast1 = 10
    min_sample_s: NotNegative = 0.01
    budget_s: NotNegative = 0.12
    timeout_s: Positive = 120.0
    seed: int = 0
    memory_limit_bytes: AtLeast1 | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """Extra work, really done in the measured program, to test the gate.

    A `delay` is in seconds or a `share` of the case's own time; `memory` is in bytes. Without
    `payloads` it applies to all of them.
    """

    extra: Extra
    seconds: float | None = None
    share: float | None = None
    limit_bytes: int | None = None
    payloads: tuple[int, ...] = ()

    def applies_to(self, case: Case) -> bool:
        return not self.payloads or case.payload_bytes in self.payloads

    def delay_s(self, without_s: float) -> float:
        """Return the requested delay of a collective that takes `without_s` without it."""
        return (self.seconds or 0.0) + (self.share or 0.0) * without_s

    @property
    def text(self) -> str:
        """As on the command line, such as ``delay:5%@1M``."""
        if self.share is not None:
            amount = f"{100 * self.share:g}%"
        elif self.seconds is not None:
            amount = f"{1e6 * self.seconds:g}us"
        else:
            amount = payload_text(self.limit_bytes or 0)
        where = "+".join(map(payload_text, self.payloads))
        return f"{self.extra.value}:{amount}" + (f"@{where}" if where else "")


# The text of a LaunchId with a number.
_LAUNCH = re.compile(
    r"(?P<round>\d+)\.(?P<framework>[^.]*)"
    r"(?:\.(?!again\b)(?P<part>[^.\d][^.]*))?(?:\.(?P<attempt>\d+))?"
    r"(?:\.(?P<again>again))?(?:\.(?P<member>[^.]+))?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchId:
    """Which worker process, or group of processes, gave a Run or a Failure.

    `part` is the side of a pair; `attempt` counts the launches that one
    pass took, from 1 on; `is_again`: it replaces one that was cut short while it started. Outside
    of passes there is only a `name`. As text: ``2.jax.reference``, ``1.jax.3.again``.
    """

    round_number: int = 0
    framework: str = ""
    part: str = ""
    attempt: int = 1
    is_again: bool = False
    member: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> LaunchId:
        """Parse the text of a LaunchId; a text of another form is a name."""
        match = _LAUNCH.fullmatch(text)
        if match is None:
            return cls(name=text)
        launch = cls(
            round_number=int(match["round"]),
            framework=match["framework"],
            part=match["part"] or "",
            attempt=int(match["attempt"] or 1),
            is_again=match["again"] is not None,
            member=match["member"] or "",
        )
        return launch if launch.text == text else cls(name=text)

    @property
    def text(self) -> str:
        """As in results, messages and the names of logs; "" for none."""
        numbered = f"{self.round_number}.{self.framework}" if self.round_number else ""
        attempt = str(self.attempt) if self.attempt > 1 else ""
        again = "again" if self.is_again else ""
        words = (self.name, numbered, self.part, attempt, again, self.member)
        return ".".join(filter(None, words))

    def __str__(self) -> str:
        return self.text

    @property
    def again(self) -> LaunchId:
        return replace(self, is_again=True)

    def of_member(self, member: str) -> LaunchId:
        return replace(self, member=member)


# For a failure without a launch, or of an unknown one.
NO_LAUNCH = LaunchId()


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What the compiled program holds.

    `collectives` counts those in one round of the loop by kind, `array_bytes` is what one of
    them gives on one rank, `groups` the ranks that each runs over. `payload_copies` counts
    copies of the payload between one collective and the next, `copies_per_call` those that a
    call makes once, however many collectives it chains. `chosen` is what the compiler published
    about the algorithm, such as ``colors``. `read_from` is what it was read from.
    """

    collectives: Mapping[str, Natural]
    payload_copies: Natural
    algorithm: str
    copies_per_call: Natural = 0
    array_bytes: AtLeast1 | None = None
    groups: tuple[tuple[Natural, ...], ...] = ()
    read_from: str = "optimised HLO"
    chosen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What one launch measured for one Case. `samples_s` are seconds for one collective, in order.

    The samples are read from `clock`; `clocks_s` has the launch's time by every clock that was
    read, the p25 as for the samples. `dispatch_s` is what one call costs beyond its collectives.
    `rank_times_s` are medians over collectives by rank, where the clock knows ranks.
    `phases_s` says what the launch spent its time on. `values_checked` counts elements that were
    compared with the exact expected ones, over all ranks and samples; a Run exists only if every
    one was right.
    `peak_memory_bytes` is the highest resident size of the worker during the case,
    `predicted_memory_bytes` the prediction of it, `compiled_memory_bytes` what one rank's part of
    the program takes according to the compiler; None where unknown.
    `injected` names the extra work of the launch; `injected_ratio` is the time with it over that
    without it, of interleaved samples, by the host's clock, None where nothing was injected or the
    clock cannot tell. `extra` has the values of extensions by name.
    """

    launch: LaunchId
    iterations: AtLeast1
    samples_s: Annotated[tuple[Seconds, ...], check_some]
    compile_s: NotNegative
    values_checked: Natural
    proof: Proof
    clock: Clock
    framework_path: str
    versions: Mapping[str, str]
    injected: str = ""
    injected_ratio: Positive | None = None
    clocks_s: Mapping[str, Positive] = field(default_factory=dict)
    dispatch_s: NotNegative | None = None
    rank_times_s: tuple[Positive, ...] = ()
    phases_s: Mapping[str, NotNegative] = field(default_factory=dict)
    peak_memory_bytes: Natural | None = None
    predicted_memory_bytes: Natural | None = None
    compiled_memory_bytes: Natural | None = None
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How fast a case was in the launch before, by the host's clock.

    A chain of n collectives took `dispatch_s` + n `time_s`; `iterations` were enough for a sample.
    """

    iterations: AtLeast1
    time_s: Positive
    dispatch_s: NotNegative = 0.0

    @classmethod
    def from_run(cls, run: Run) -> Pace | None:
        """Return the pace of a launch; None where the host's clock read no chain."""
        time_s = run.clocks_s.get(Clock.HOST.value)
        if time_s is None:
            return None
        return cls(iterations=run.iterations, time_s=time_s, dispatch_s=run.dispatch_s or 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A request that gave no Run: a value, not an exception.

    For OUT_OF_MEMORY: how that was `detected`, bytes needed, bytes available at the moment,
    `capacity_bytes`, what would be available if nothing else used the machine's memory, and
    `process_bytes`, what the worker's process took by itself.
    """

    kind: FailureKind
    message: str
    launch: LaunchId = NO_LAUNCH
    exit_code: int | None = None
    log: str = ""
    detected: Detection | None = None
    needed_bytes: Natural | None = None
    available_bytes: Natural | None = None
    capacity_bytes: Natural | None = None
    process_bytes: Natural | None = None

    @property
    def first_line(self) -> str:
        """The sentence of its message, without the program's text that may stand below."""
        return self.message.partition("\n")[0].removesuffix(":")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A Case with one Run or one Failure per launch."""

    case: Case
    runs: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def launches(self) -> int:
        return len(self.runs) + len(self.failures)
