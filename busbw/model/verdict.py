"""The verdicts on cases and on a session, which are decided in `busbw.judge`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .case import Case, CaseSpec
from .field_types import NotNegative, Positive
from .launch import Failure
from .words import FailureKind, Outcome, SessionOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchTimeSummary:
    """The statistics of a case's launch times. They are always computed anew from the times.

    `times_s` contains the time of each launch. `median_s` is their median, `best_s` the shortest
    and `worst_s` the longest. The bandwidths are computed from `median_s`. `spread` is a robust
    relative standard deviation: 1.4826 median(|time - median_s|) / median_s, without a unit. It is
    0 for a single launch. `dispatch_s` is the time that a call takes in addition to its
    collectives, the median of the launches; None if it was not measured.
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
class Reference:
    """A published bandwidth, which was measured by another method and is shown, never judged.

    `source` says where it was published. With `oom` the case ran out of memory, and the bandwidth
    is None. `doubt` says why the published number may be wrong; empty without a doubt.
    """

    source: str
    oom: bool
    algbw_gb_per_s: Positive | None = None
    doubt: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """The busbw that the links or the memory of the hardware allow, in bytes per second.

    `bytes_per_s` is the ceiling of the algorithm that was chosen. `most_bytes_per_s` is the busbw
    that no algorithm can exceed, not even sums in the switch, where switches can add up
    (`in_switch`). `text` names the links or the memory that set the ceiling. `sure` says that the
    bandwidths of the hardware, from which the ceiling is computed, are trusted.
    """

    bytes_per_s: Positive
    most_bytes_per_s: Positive
    text: str
    sure: bool
    in_switch: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The verdict on a requested case.

    `failed` says whether the test of the case fails. `text` gives the reason. `case` is None if the
    request was not resolved. `failure` is the failure that was judged, None without a failure.
    `expected` says that running out of memory was expected. `notes` are texts that change nothing.

    The other fields are None if they are unknown, such as for a case without a time. `now`
    summarizes today's times, and `baseline` the times of the baseline or of the reference. `ratio`
    is today's time over the level or, with two stacks, the candidate's time over the reference's
    time. `ratio_interval` has the ratios of the fastest and of the slowest launch or, with two
    stacks, the 95 % confidence interval of the ratio. `ratio_error` is the standard error of
    log(ratio). `limit` is the ratio above which the case fails if more launches confirm it.
    `provisional` says that the baseline has too few sessions for a narrow limit. `published` is a
    bandwidth to show, which is not judged. `ceiling` is the busbw that the hardware allows, None if
    unknown. `extra` maps the names of extensions' extra values to these values.
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
    published: Reference | None = None
    ceiling: Ceiling | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def has_wrong_result(self) -> bool:
        """Whether the case failed because a value was wrong."""
        return self.failure is not None and self.failure.kind is FailureKind.WRONG_RESULT

    @property
    def name(self) -> str:
        """The name of the case, or the id of the request if there is no case."""
        return self.case.name if self.case is not None else self.spec.id

    @property
    def family_name(self) -> str:
        """The name of the case's family, or the name of the framework if there is no case."""
        return self.case.family_name if self.case is not None else self.spec.framework

    @property
    def ceiling_share(self) -> float | None:
        """Today's busbw over the ceiling of the hardware; None if either is unknown."""
        if self.now is None or self.ceiling is None:
            return None
        return self.now.busbw_gb_per_s * 1e9 / self.ceiling.bytes_per_s

    def headline(self) -> str:
        """Return the outcome and its reason, as a line."""
        return f"{self.outcome.value}: {self.text}"

    def explain(self) -> str:
        """Return the outcome and, if a launch failed, its failure with the end of the log."""
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
    """The verdict on a session, which is the last test item of the session.

    `outcomes` are all outcomes of the session, the most important first.
    """

    outcomes: tuple[SessionOutcome, ...]
    text: str

    @property
    def outcome(self) -> SessionOutcome:
        """The most important outcome, which is the outcome that is shown."""
        return self.outcomes[0]

    @property
    def failed(self) -> bool:
        """Whether pytest's item for the whole session fails."""
        return self.outcome.is_failure

    def with_failure(self, outcome: SessionOutcome, text: str) -> SessionVerdict:
        """Return the verdict with the failing `outcome` added, and `text` in front of its text.

        Its earlier outcomes stay if they are failures; PASS, for example, is dropped. Outcomes are
        in the order of their importance.
        """
        failures = {outcome, *(other for other in self.outcomes if other.is_failure)}
        return replace(
            self,
            outcomes=tuple(other for other in SessionOutcome if other in failures),
            text=f"{text}; {self.text}",
        )

    def headline(self) -> str:
        """Return all outcomes and their reasons, as a line."""
        return f"{', '.join(self.outcomes)}: {self.text}"
