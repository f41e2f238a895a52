"""What a worker answers: a Run or a Failure, and a Measurement of both.

Holds what was seen, never what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .case import Case
from .identity import LaunchId
from .training_run import TrainingRun
from .words import FailureKind, FoundBy

# Where nobody was launched, or nobody says which.
NO_LAUNCH = LaunchId()


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What the compiled program holds.

    `collectives` counts those in one round of the loop by kind, `array_bytes` is what one of
    them gives on one rank, `groups` the ranks that each runs over. `payload_copies` counts
    copies of the payload between one collective and the next, `copies_per_call` those that a
    call makes once, however many collectives it chains. `chosen` is what the compiler published
    of how the collective is done, such as ``colors``. `read_from` is what it was read from.
    """

    collectives: Mapping[str, int]
    payload_copies: int
    algorithm: str
    copies_per_call: int = 0
    array_bytes: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    read_from: str = "optimised HLO"
    chosen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What one launch saw for one Case. `samples_s` are seconds for one collective, in order.

    The samples are read from `clock`; `clocks_s` has the launch's time by every clock that was
    read, the p25 as for the samples. `dispatch_s` is what one call costs beyond its collectives,
    `first_call_s` the first call of the compiled program. `rank_times_s` are medians over
    collectives by rank, where the clock knows ranks; `over_ranks_s` is the launch's time by the
    slowest and the fastest rank of each collective, and by their mean; of a training step both are
    the collective's inside of it, by the profiler, and `hidden_share` is how much of its own time
    other instructions of the rank ran, 0 to 1, the median over collectives and ranks; None where
    the recording does not tell, or nobody asked. `phases_s` says what the
    launch spent its time on. `values_checked` counts elements that were compared with the exact
    expected ones, over all ranks and samples; a Run exists only if every one was right.
    `peak_memory_bytes` is the highest resident size of the worker during the case,
    `predicted_memory_bytes` what was expected of it beforehand, `compiled_memory_bytes` what the
    compiler says that one rank's part of the program takes; None where nobody tells.
    `anchors_s` are seconds of one pass of the anchor, a workload without a collective that reads
    and writes the same buffers on the same ranks, taken beside the samples. `injected` names what
    the launch was asked to do beyond the case. `training` is what training under a strategy gave;
    the samples are then seconds of a step, one for each epoch after the first.
    """

    launch: LaunchId
    iterations: int
    samples_s: tuple[float, ...]
    compile_s: float
    values_checked: int
    proof: Proof
    clock: str
    framework_path: str
    versions: Mapping[str, str]
    anchors_s: tuple[float, ...] = ()
    injected: str = ""
    clocks_s: Mapping[str, float] = field(default_factory=dict)
    dispatch_s: float | None = None
    first_call_s: float | None = None
    rank_times_s: tuple[float, ...] = ()
    over_ranks_s: Mapping[str, float] = field(default_factory=dict)
    hidden_share: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    peak_memory_bytes: int | None = None
    predicted_memory_bytes: int | None = None
    compiled_memory_bytes: int | None = None
    training: TrainingRun | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A request that gave no Run: a value, not an exception.

    For OUT_OF_MEMORY: bytes needed, bytes that could be had at the moment, and
    `capacity_bytes`, what could be had if nothing else used the machine's memory.
    """

    kind: FailureKind
    message: str
    launch: LaunchId = NO_LAUNCH
    exit_code: int | None = None
    log: str = ""
    found: FoundBy | None = None
    needed_bytes: int | None = None
    available_bytes: int | None = None
    capacity_bytes: int | None = None

    @property
    def last_line(self) -> str:
        """The last line of its log, where a process mostly says why it ended."""
        return self.log.splitlines()[-1] if self.log else "nothing in its log"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A Case with one Run or one Failure per launch."""

    case: Case
    runs: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()
