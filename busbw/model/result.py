"""What a worker answers: a Run or a Failure, and a Measurement of both.

Holds what was seen, never what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .request import Case
from .words import FailureKind, Found


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What the compiled program holds: collectives by kind, the algorithm, copies of the payload.

    `payload_copies` counts those between one sum and the next, `copies_per_call` those that a
    call makes once, however many sums it chains.
    """

    collectives: Mapping[str, int]
    payload_copies: int
    algorithm: str
    copies_per_call: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What one launch saw for one Case. `samples_s` are seconds for one all-reduce, in order.

    `values_checked` counts elements that were compared with the exact expected sum, over all
    ranks and samples; a Run exists only if every one was right. `peak_memory_bytes` is the
    highest resident size of the worker during the case, `predicted_memory_bytes` what was
    expected of it beforehand; `None` where the device does not tell.
    """

    launch: str
    iterations: int
    samples_s: tuple[float, ...]
    compile_s: float
    values_checked: int
    proof: Proof
    clock: str
    framework_path: str
    versions: Mapping[str, str]
    peak_memory_bytes: int | None = None
    predicted_memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A request that gave no Run: a value, not an exception.

    For OUT_OF_MEMORY: bytes needed, bytes that could be had at the moment, and
    `capacity_bytes`, what could be had if nothing else used the machine's memory.
    """

    kind: FailureKind
    message: str
    launch: str = ""
    exit_code: int | None = None
    log: str = ""
    found: Found | None = None
    needed_bytes: int | None = None
    available_bytes: int | None = None
    capacity_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A Case with one Run or one Failure per launch."""

    case: Case
    runs: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()
