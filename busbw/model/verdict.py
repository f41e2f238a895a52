"""The answers; a verdict words itself. The rules that give them are in `busbw.judge`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .case import Case, Spec
from .launch import Failure
from .limits import NotNegative, Positive
from .words import FailureKind, Outcome, SessionOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Derived from launch times, never stored as truth. Rates come from `median_s`.

    `spread` is 1.4826 x the median absolute deviation over the median: a robust relative
    standard deviation, 0 for a single launch. `dispatch_s` is what a call costs beyond its
    collectives, a median over launches, where it was measured.
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
class Curve:
    """t(S) = `latency_s` + S / `bandwidth_bytes_per_s`.

    `rms_log_error` is the root mean square of log(time / fitted time) over all sizes: about the
    relative error of the fit.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    rms_log_error: float

    def latency_share(self, payload_bytes: int) -> float:
        """Return the latency's share of the time for a payload, 0 to 1; the bytes have the rest."""
        return self.latency_s / (self.latency_s + payload_bytes / self.bandwidth_bytes_per_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeGroup:
    """One framework, collective and strategy over its sizes.

    `now` is None where no curve can be fitted. `shifted` says what got slower though no single
    size shows it; empty for nothing.
    """

    case: Case
    now: Curve | None
    shifted: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A figure that somebody else published, measured by another method: shown, never judged."""

    source: str
    oom: bool
    algbw_gb_per_s: Positive | None = None
    doubt: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """What links or memory allow, as busbw in bytes per second, and which of them that is.

    `most_bytes_per_s` is what no all-reduce can exceed, by whatever algorithm, with adding up in
    the switch where it can (`in_switch`). `sure` says that the figures are trusted.
    """

    bytes_per_s: Positive
    most_bytes_per_s: Positive
    text: str
    sure: bool
    in_switch: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The answer for a Case. It words itself.

    `failed` says whether the test fails, `expected` that a failure was expected; `notes` change
    nothing. The rest is of what was timed: `ratio` is today's time over the level of the baseline
    and its history, or the candidate's over the reference's. `ratio_interval` is the best and the
    worst launch's ratio, or what the pairs say with 95 % confidence; `ratio_error` is the standard
    error of log(ratio). `limit` is the ratio beyond which it is a suspicion of a regression.
    `published` is shown and never judged. `ceiling` is what the hardware allows, where that is
    known. `extra` has the values of extensions by name.
    """

    spec: Spec
    outcome: Outcome
    failed: bool
    text: str
    case: Case | None = None
    failure: Failure | None = None
    expected: bool = False
    notes: tuple[str, ...] = ()
    now: Summary | None = None
    baseline: Summary | None = None
    ratio: Positive | None = None
    ratio_interval: tuple[Positive, Positive] | None = None
    ratio_error: NotNegative | None = None
    limit: Positive | None = None
    provisional: bool = False
    published: Reference | None = None
    ceiling: Ceiling | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_wrong(self) -> bool:
        return self.failure is not None and self.failure.kind is FailureKind.WRONG_RESULT

    @property
    def name(self) -> str:
        """The name of the case, or the id of what was requested if there is no case."""
        return self.case.name if self.case is not None else self.spec.id

    @property
    def group_name(self) -> str:
        """Return what the case shares with all sizes of its kind, in words."""
        return self.case.group_name if self.case is not None else self.spec.framework

    @property
    def ceiling_share(self) -> float | None:
        """Today's busbw over what the hardware allows; None where either is not known."""
        if self.now is None or self.ceiling is None:
            return None
        return self.now.busbw_gb_per_s * 1e9 / self.ceiling.bytes_per_s

    def headline(self) -> str:
        return f"{self.outcome.value}: {self.text}"

    def explain(self) -> str:
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
    """The answer for the session; it is a test item of its own, the last.

    `outcomes` are all that hold, in their order; the first is the word.
    """

    outcomes: tuple[SessionOutcome, ...]
    text: str

    @property
    def outcome(self) -> SessionOutcome:
        return self.outcomes[0]

    @property
    def failed(self) -> bool:
        """Whether the session's item fails."""
        return self.outcome.is_failure

    def with_outcome(self, outcome: SessionOutcome, text: str) -> SessionVerdict:
        failures = {outcome, *(other for other in self.outcomes if other.is_failure)}
        return replace(
            self,
            outcomes=tuple(other for other in SessionOutcome if other in failures),
            text=f"{text}; {self.text}",
        )

    def headline(self) -> str:
        return f"{', '.join(self.outcomes)}: {self.text}"
