"""Launches: their plans and ids, injected losses, and the results of cases in launches.

A launch gives each case a Run or a Failure, and a Measurement has the Runs and Failures of a case.
`busbw.judge` decides which verdict the Measurement gives. A Case contains no MeasurementPlan and no
Injection, so times that were measured with different plans belong to the same Case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from .case import Case
from .field_types import AtLeast1, Natural, NotNegative, Positive, Seconds, check_not_empty
from .words import Clock, FailureKind, OutOfMemoryDetection, payload_text


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementPlan:
    """How often and how long a session measures. The measured program is the same for all plans.

    A sample is the difference in time between a long and a short chain (two calls of the same
    program with different numbers of iterations), divided by the difference in iterations.

    Attributes:
        launches: The number of launches in which each case is measured.
        samples: The number of samples of a case in a launch. The launch takes fewer samples if they
            take longer than `budget_s`.
        min_sample_s: The least difference in seconds between the times of the long and the short
            chain, so that the clock can measure the difference. The difference is smaller if the
            program cannot run more iterations, or if a single turn takes the whole budget.
        budget_s: The seconds after which a launch takes no more samples of a case, if it has at
            least two. After several times `budget_s` a single sample is enough.
        timeout_s: The longest time in seconds that a case may take in a launch.
        seed: The seed of the random order of cases.
        memory_limit_bytes: An artificial limit of a host's memory in bytes; None for no limit.

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
    """A loss that --inject causes on purpose, to test whether busbw detects the loss.

    An injection is either a delay or a limit of memory. A delay is a busy loop on every rank, which
    is really executed in the measured program.

    Attributes:
        share: The delay as a fraction of the time of an undelayed collective, such as 0.05; None
            for a limit of memory.
        limit_bytes: The memory in bytes that the worker may use; None for a delay.
        payloads: The payloads in bytes of the cases that lose time or memory; empty for all cases.

    """

    share: float | None = None
    limit_bytes: int | None = None
    payloads: tuple[int, ...] = ()

    def applies_to(self, case: Case) -> bool:
        """Return whether `case` loses time or memory; if `payloads` is empty, all cases do."""
        return not self.payloads or case.payload_bytes in self.payloads

    def delay_s(self, undelayed_s: float) -> float:
        """Return the delay in seconds of a collective that takes `undelayed_s` seconds without it.

        Returns 0.0 if the injection is a limit of memory.
        """
        return (self.share or 0.0) * undelayed_s

    @property
    def text(self) -> str:
        """The injection as --inject accepts it, such as ``delay:5%@1M``."""
        memory = f"memory:{payload_text(self.limit_bytes or 0)}"
        loss = memory if self.share is None else f"delay:{100 * self.share:g}%"
        where = "+".join(map(payload_text, self.payloads))
        return loss + (f"@{where}" if where else "")


# The text of a LaunchId with the number of a round. Logs and results have it.
_LAUNCH_PATTERN = re.compile(
    r"(?P<round>\d+)\.(?P<framework>[^.]*)"
    r"(?:\.(?!again\b)(?P<part>[^.\d][^.]*))?(?:\.(?P<attempt>\d+))?"
    r"(?:\.(?P<again>again))?(?:\.(?P<member>[^.]+))?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchId:
    """The id of a launch, whose text is, for example, ``2.jax.reference`` or ``1.jax.3.again``.

    Attributes:
        round_number: The number of the round, counted from 1; 0 for a launch outside of rounds.
        framework: The name of the framework; empty for a launch outside of rounds.
        side: ``candidate`` or ``reference`` if two stacks are interleaved; otherwise empty.
        attempt: The number of the launch among the framework's launches in a round, from 1. After a
            worker died, the next launch measures the cases that are still unmeasured.
        is_replacement: Whether the launch replaces a launch whose start was cut short.
        member: The name of a process of a group; empty for the whole launch.
        name: The whole id of a launch outside of rounds, such as ``probe``; otherwise empty.

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
        """Return the LaunchId with this `text`.

        If `text` does not have the form of a numbered launch, the whole `text` becomes the `name`,
        and the other fields have their defaults.
        """
        match = _LAUNCH_PATTERN.fullmatch(text)
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
        return launch if str(launch) == text else cls(name=text)

    def __str__(self) -> str:
        """Return the id as text, for results, messages and logs; empty if the id has no values."""
        numbered = f"{self.round_number}.{self.framework}" if self.round_number else ""
        attempt = str(self.attempt) if self.attempt > 1 else ""
        again = "again" if self.is_replacement else ""
        words = (self.name, numbered, self.side, attempt, again, self.member)
        return ".".join(filter(None, words))


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The evidence that the compiled program of a case contains the requested collective.

    Attributes:
        collectives: The number of collectives in a turn of the measured loop, by the kind of
            collective, such as ``all-reduce``.
        payload_copies: The number of copies of the payload in a turn of the loop.
        algorithm: The strategy of the case, such as ``psum``.
        copies_per_call: The number of copies of the payload outside of the loop. A call of the
            program makes these copies once, even if it runs many collectives.
        array_bytes: The size in bytes of a collective's result on a rank; None if unknown.
        groups: The ranks of each group over which a collective runs; empty if unknown.
        read_from: The kind of text in which the collectives were counted, such as
            ``executed graph``.
        chosen: The properties of the algorithm that the compiler chose and states, by the name of
            the property, such as ``colors``.

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
    """The measurement of a case in a launch, if all values of the results were correct.

    If a value was wrong, the case has a Failure instead. Each size in bytes is None if unknown.

    Attributes:
        launch: The id of the launch.
        iterations: The number of collectives in the long chain of a sample.
        samples_s: The samples in the order of measuring: each is the time of a single collective in
            seconds.
        compile_s: The time of compiling in seconds.
        values_checked: The number of elements that were compared with the expected elements, over
            all ranks and samples.
        proof: The proof that the program does the requested collective.
        clock: The clock of `samples_s`.
        framework_path: The folder of the framework.
        versions: The versions of the framework's packages.
        injected: The text of the injection; empty without an injection.
        injected_ratio: The time with an injected delay divided by the time without it, in
            interleaved samples on the host's clock; None without a delay.
        clocks_s: The time of a collective in seconds (the p25 of the samples of a clock), by the
            name of the clock.
        dispatch_s: The seconds that a call takes in addition to its collectives; None if unknown.
        rank_times_s: The median time of a collective on each rank; empty if the clock cannot
            distinguish ranks.
        phases_s: The seconds of each phase of the launch, such as ``sampling``.
        peak_memory_bytes: The most memory that the worker (on an accelerator, a device) used during
            the case.
        predicted_memory_bytes: The prediction of `peak_memory_bytes`.
        compiled_memory_bytes: The memory of the program on a rank, as the compiler reports it.
        extra: The extra values of extensions, by name.

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
class PreviousPace:
    """The speed of a case in its previous launch, measured with the host's clock.

    A chain of n collectives took `dispatch_s` + n `time_s` seconds.

    Attributes:
        iterations: The number of collectives that made a chain long enough for a sample.
        time_s: The seconds of a collective.
        dispatch_s: The seconds that a call took in addition to its collectives.

    """

    iterations: AtLeast1
    time_s: Positive
    dispatch_s: NotNegative = 0.0

    @classmethod
    def from_run(cls, run: Run) -> PreviousPace | None:
        """Return the pace of the case in the launch of `run`.

        Returns None if the host's clock did not time chains in this launch.
        """
        time_s = run.clocks_s.get(Clock.HOST.value)
        if time_s is None:
            return None
        return cls(iterations=run.iterations, time_s=time_s, dispatch_s=run.dispatch_s or 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The reason why a launch measured no time for a case; a value, not an exception.

    The fields whose names end with `_bytes` are only for OUT_OF_MEMORY, and None if unknown.

    Attributes:
        kind: The kind of failure.
        message: The reason in words, for the user.
        launch: The id of the launch; an empty id if the case failed without a launch.
        exit_code: The exit code of the worker; None if the worker did not end.
        log: The end of the worker's log.
        detected: How busbw noticed that memory ran out; None for other kinds.
        needed_bytes: The memory that the case needs.
        available_bytes: The memory that was free for the case.
        capacity_bytes: The memory that would be free if no other process used any.
        process_bytes: The memory of the worker without the case.

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
        """The first line of the message. Later lines can contain the text of a program."""
        return self.message.partition("\n")[0].removesuffix(":")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """The results of a case: a Run for each launch that measured a time, and all Failures."""

    case: Case
    runs: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def launch_count(self) -> int:
        """The number of launches that gave the case a Run or a Failure."""
        return len(self.runs) + len(self.failures)
