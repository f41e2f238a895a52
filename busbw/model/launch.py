"""A launch: its plan, its id, and its result.

A launch gives each case a Run or a Failure, and a Measurement has the Runs and Failures of a case.
`busbw.judge` decides what they mean. A Plan and an Injection are no part of a Case: cases that were
measured with different plans are equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from .case import Case
from .field_types import AtLeast1, Natural, NotNegative, Positive, Seconds, check_not_empty
from .words import Clock, FailureKind, InjectionKind, OutOfMemoryDetection, payload_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How long and how often to measure. A plan never changes the measured program.

    Each case is measured in `launches` launches. In a launch, sampling ends when there are
    `samples` samples. It also ends after `budget_s` seconds if there are two samples or more.
    After several times `budget_s` a single sample is enough.

    A sample is the difference in time between a long and a short chain: two calls of the same
    program with different numbers of iterations. The long chain is made so long that the difference
    is about `min_sample_s` seconds, which the clock can measure, unless that takes too much of the
    budget.

    `timeout_s` is the longest time that a case may take in a launch. `seed` shuffles the order of
    cases. `memory_limit_bytes` is an artificial limit of a host's memory, None without a limit.
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
    """A loss that is caused on purpose, to test whether busbw finds it.

    `extra` is the kind of loss. A delay is really executed in the measured program: it takes a
    `share` of the time that a collective takes without it (0.05 is 5 %). For the kind memory, the
    worker may use only `limit_bytes`. `payloads` limits the loss to cases with these payloads, in
    bytes; if it is empty, all cases lose time or memory.
    """

    extra: InjectionKind
    share: float | None = None
    limit_bytes: int | None = None
    payloads: tuple[int, ...] = ()

    def applies_to(self, case: Case) -> bool:
        """Return whether `case` has one of the payloads that lose."""
        return not self.payloads or case.payload_bytes in self.payloads

    def delay_s(self, undelayed_s: float) -> float:
        """Return the requested delay of a collective that takes `undelayed_s` without a delay."""
        return (self.share or 0.0) * undelayed_s

    @property
    def text(self) -> str:
        """The injection as on the command line, such as ``delay:5%@1M``."""
        amount = (
            payload_text(self.limit_bytes or 0) if self.share is None else f"{100 * self.share:g}%"
        )
        where = "+".join(map(payload_text, self.payloads))
        return f"{self.extra.value}:{amount}" + (f"@{where}" if where else "")


# The text of a LaunchId with the number of a round. Logs and results have it.
_LAUNCH = re.compile(
    r"(?P<round>\d+)\.(?P<framework>[^.]*)"
    r"(?:\.(?!again\b)(?P<part>[^.\d][^.]*))?(?:\.(?P<attempt>\d+))?"
    r"(?:\.(?P<again>again))?(?:\.(?P<member>[^.]+))?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchId:
    """The id of a launch, such as ``2.jax.reference`` or ``1.jax.3.again`` as text.

    `round_number` counts rounds from 1. `side` is ``candidate`` or ``reference`` if two stacks are
    interleaved, and otherwise empty. `attempt` counts the launches of a framework in a round: the
    second launch measures the cases that are left after a worker died. `is_replacement` says that
    the launch replaces a launch whose start was cut short. `member` names a process of a group.
    A launch outside of rounds has only a `name`, such as ``probe``.
    """

    round_number: int = 0
    framework: str = ""
    side: str = ""
    attempt: int = 1
    is_replacement: bool = False
    member: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> LaunchId:
        """Parse the text of a LaunchId; any other text becomes the `name`."""
        match = _LAUNCH.fullmatch(text)
        if match is None:
            return cls(name=text)
        launch = cls(
            round_number=int(match["round"]),
            framework=match["framework"],
            side=match["part"] or "",
            attempt=int(match["attempt"] or 1),
            is_replacement=match["again"] is not None,
            member=match["member"] or "",
        )
        return launch if launch.text == text else cls(name=text)

    @property
    def text(self) -> str:
        """The id as in results, messages and names of logs; empty without a launch."""
        numbered = f"{self.round_number}.{self.framework}" if self.round_number else ""
        attempt = str(self.attempt) if self.attempt > 1 else ""
        again = "again" if self.is_replacement else ""
        words = (self.name, numbered, self.side, attempt, again, self.member)
        return ".".join(filter(None, words))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The proof that the compiled program does the requested collective.

    Attributes:
        collectives: The number of collectives of each kind in one pass through the measured loop.
        array_bytes: The size of the result of a collective on a rank; None if it is unknown.
        groups: The ranks of each group over which a collective runs.
        payload_copies: The number of copies of the payload between a collective and the next.
        copies_per_call: The number of copies that a call makes once, however many collectives it
            chains.
        algorithm: The strategy of the case.
        chosen: Maps each property of the algorithm that the compiler states, such as ``colors``, to
            its value.
        read_from: The name of the text in which all this was found.

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
    """The measurement of a case in a launch. All values were correct: otherwise it is a Failure.

    `samples_s` contains the seconds of a single collective in each sample, in the order of
    measuring, read from `clock`. The long chain of a sample has `iterations` collectives.
    `clocks_s` maps each clock that was read to the launch's time (the p25 of samples). `dispatch_s`
    is the time that a call takes in addition to its collectives, None if unknown. `rank_times_s`
    has the median time of a collective on each rank; empty if the clock cannot distinguish ranks.
    `compile_s` is the time of compiling. `phases_s` maps each phase of the launch, such as
    ``sampling``, to its duration in seconds. `values_checked` counts the elements that were
    compared with the expected elements, over all ranks and samples.

    `peak_memory_bytes` is the most memory that the worker (on an accelerator, a device) used during
    the case. `predicted_memory_bytes` is the prediction of it. `compiled_memory_bytes` is the
    memory of the program on a rank, as the compiler reports it. Each is None if unknown. `injected`
    is the text of the injection, empty without it. `injected_ratio` is the time with an injected
    delay over the time without it, in interleaved samples on the host's clock; None without a
    delay. `framework_path` is the folder of the framework. `versions` maps its packages to their
    versions, and `extra` maps the names of extensions' values to these values.
    """

    launch: LaunchId
    iterations: AtLeast1
    samples_s: Annotated[tuple[Seconds, ...], check_not_empty]
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
class HostPace:
    """How fast a case was in its previous launch, on the host's clock.

    A chain of n collectives took `dispatch_s` + n `time_s`, and chains of `iterations` collectives
    were long enough for a sample.
    """

    iterations: AtLeast1
    time_s: Positive
    dispatch_s: NotNegative = 0.0

    @classmethod
    def from_run(cls, run: Run) -> HostPace | None:
        """Return the pace of the launch of `run`; None if the host's clock did not time chains."""
        time_s = run.clocks_s.get(Clock.HOST.value)
        if time_s is None:
            return None
        return cls(iterations=run.iterations, time_s=time_s, dispatch_s=run.dispatch_s or 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a launch gave no Run for a case. It is returned as a value, not raised.

    `log` is the end of the worker's log. `exit_code` is the exit code of the worker, None if it did
    not end. `launch` is empty if the case failed without a launch.

    Only for OUT_OF_MEMORY: `detected` says how busbw noticed it. `needed_bytes` is the memory that
    the case needs, `available_bytes` the memory that was free at that moment, `capacity_bytes` the
    memory that would be free if no other process used any, and `process_bytes` the memory of the
    worker without the case. Each is None if unknown.
    """

    kind: FailureKind
    message: str
    launch: LaunchId = field(default_factory=LaunchId)
    exit_code: int | None = None
    log: str = ""
    detected: OutOfMemoryDetection | None = None
    needed_bytes: Natural | None = None
    available_bytes: Natural | None = None
    capacity_bytes: Natural | None = None
    process_bytes: Natural | None = None

    @property
    def first_line(self) -> str:
        """The first line of the message; a compiled program's text may stand below it."""
        return self.message.partition("\n")[0].removesuffix(":")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """The results of a case: a Run or a Failure for each launch."""

    case: Case
    runs: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def launches(self) -> int:
        """The number of launches that gave a result."""
        return len(self.runs) + len(self.failures)
