"""The verdicts on cases and on a session, which are decided in `busbw.judge`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .case import Case, CaseSpec
from .field_types import NotNegative, Positive
from .launch import Failure
from .words import Outcome, SessionOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchTimeSummary:
    """The statistics of the times of a case's launches, and the bandwidths of their median.

    Attributes:
        times_s: The time of each launch in seconds.
        median_s: The median of `times_s`, or the level of the case in the summary of a baseline.
        best_s: The shortest of `times_s`.
        worst_s: The longest of `times_s`.
        spread: The robust relative standard deviation of `times_s`, without a unit: 1.4826
            median(|time - median|) / median; 0 for a single launch.
        algbw_gb_per_s: The algbw for `median_s`, in GB/s (10^9 bytes per second).
        busbw_gb_per_s: The busbw for `median_s`, in GB/s.
        dispatch_s: The median of the seconds that a call takes in addition to its collectives; None
            if not measured.

    """

    times_s: tuple[Positive, ...]
    median_s: Positive
    best_s: Positive
    worst_s: Positive
    spread: NotNegative
    algbw_gb_per_s: Positive
    busbw_gb_per_s: NotNegative
    dispatch_s: NotNegative | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedBandwidth:
    """A published bandwidth of a case, measured by another method; it is shown, never judged.

    Attributes:
        source: Where the bandwidth was published.
        oom: Whether the publication says that the case ran out of memory.
        algbw_gb_per_s: The published algbw in GB/s (10^9 bytes per second); None with `oom`.
        doubt: The reason why the number may be wrong; empty without a doubt.

    """

    source: str
    oom: bool
    algbw_gb_per_s: Positive | None = None
    doubt: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BandwidthCeiling:
    """The busbw that the links or the memory of the hardware allow, in bytes per second.

    Attributes:
        bytes_per_s: The ceiling of the algorithm that the compiler chose.
        most_bytes_per_s: The ceiling that no algorithm can exceed, even if the switch adds up.
        text: The links or the memory that limit the busbw, in words.
        sure: Whether the bandwidths of the chip that its vendor states are reliable.
        in_switch: Whether the switch between the chips can add up the data of the collective.

    """

    bytes_per_s: Positive
    most_bytes_per_s: Positive
    text: str
    sure: bool
    in_switch: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The verdict on a requested case: its outcome, the reason, and the compared times.

    A value is None if it is unknown, such as the ratio of a case without a time.

    Attributes:
        spec: The requested case.
        outcome: The outcome, such as REGRESSED.
        failed: Whether the test of the case fails.
        text: The reason for the outcome.
        case: The case; None if `spec` could not be resolved on the machine.
        failure: The failure that decided the outcome; None without a failure.
        expected: Whether the case ran out of memory as its baseline says.
        notes: Texts about the case that do not change its outcome.
        now: The times of this session.
        baseline: The times of the baseline or, with two stacks, of the reference.
        ratio: The time of this session divided by the level or, with two stacks, the time of the
            candidate divided by the time of the reference.
        ratio_interval: The ratios of the fastest and of the slowest launch or, with two stacks, the
            95 % confidence interval of `ratio`.
        ratio_error: The standard error of the natural logarithm of `ratio`.
        limit: The ratio above which the case fails, if more launches confirm it.
        provisional: Whether the baseline has too few sessions for a narrow limit.
        published: A published bandwidth, which is shown and not judged.
        ceiling: The busbw that the hardware allows.
        extra: The extra values of extensions, by name.

    """

    spec: CaseSpec
    outcome: Outcome
    failed: bool
    text: str
    case: Case | None = None
    failure: Failure | None = None
    expected: bool = False
    notes: tuple[str, ...] = ()
    now: LaunchTimeSummary | None = None
    baseline: LaunchTimeSummary | None = None
    ratio: Positive | None = None
    ratio_interval: tuple[Positive, Positive] | None = None
    ratio_error: NotNegative | None = None
    limit: Positive | None = None
    provisional: bool = False
    published: PublishedBandwidth | None = None
    ceiling: BandwidthCeiling | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the case, or the id of `spec` if `case` is None."""
        return self.case.name if self.case is not None else self.spec.id

    @property
    def ceiling_share(self) -> float | None:
        """The busbw of this session divided by the ceiling; None if either is unknown."""
        if self.now is None or self.ceiling is None:
            return None
        return self.now.busbw_gb_per_s * 1e9 / self.ceiling.bytes_per_s

    def headline(self) -> str:
        """Return the outcome and its reason, as a single line of text."""
        return f"{self.outcome.value}: {self.text}"

    def explain(self) -> str:
        """Return the outcome, its reason and the failure with its log, if any, as several lines."""
        lines, failure = [self.headline()], self.failure
        if failure is None:
            return lines[0]
        lines.append(f"launch {failure.launch}: {failure.kind.value}: {failure.message}")
        if failure.exit_code is not None:
            lines.append(f"exit code {failure.exit_code}")
        if failure.log:
            lines.append("end of the worker's log:")
        lines += ["    " + row for row in failure.log.splitlines()]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionVerdict:
    """The verdict on a session; the last test item of the session passes or fails by this verdict.

    Attributes:
        outcomes: All outcomes of the session, the most important first; never empty.
        text: The reasons for the outcomes.

    """

    outcomes: tuple[SessionOutcome, ...]
    text: str

    @property
    def outcome(self) -> SessionOutcome:
        """The most important outcome, by which the session passes or fails."""
        return self.outcomes[0]

    @property
    def failed(self) -> bool:
        """Whether pytest's item for the whole session fails."""
        return self.outcome.is_failure

    def with_failure(self, outcome: SessionOutcome, text: str) -> SessionVerdict:
        """Return a copy of the verdict with the failing `outcome` added, and its reason `text`.

        The reason precedes the other reasons. Outcomes that are not failures, such as PASS, are
        dropped. The outcomes are in the order of their importance.
        """
        failures = {outcome, *(other for other in self.outcomes if other.is_failure)}
        return replace(
            self,
            outcomes=tuple(other for other in SessionOutcome if other in failures),
            text=f"{text}; {self.text}",
        )

    def headline(self) -> str:
        """Return all outcomes and their reasons, as a single line of text."""
        return f"{', '.join(self.outcomes)}: {self.text}"
