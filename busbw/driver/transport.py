"""Where workers run, what they are asked, and what comes from one: a checked reply, or its end.

Each transport has a file that implements Transport and Member; groups and schedules know nothing
else of it. A worker runs code that is not ours, under an interpreter that is not ours: anything but
a valid reply to the request ends the worker, and is never part of a result. Ends without a reply
are distinguished by the exit code, by the kernel's count of processes killed for memory, and by the
end of the log.
"""

from __future__ import annotations

import json
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Generic, TypeVar

from busbw import wire
from busbw.model.cluster import ALONE, Cluster, ClusterMember
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind, FoundBy

from .bundle import Bundle
from .process import Exit


@dataclass(frozen=True, kw_only=True)
class Starter:
    """How to start a worker: which interpreter, for which framework, service and device.

    `service` is the session that the worker opens, of a table in `busbw.worker.serve` or of an
    extension.
    With several `processes` a worker is a group of them, each with its part of the ranks; they
    share `shared_devices` GPUs, or have devices of their own where that is 0.
    `environment` is added to pytest's own without `unset`, and holds under every interpreter.
    `defaults` are variables for those that neither sets.
    """

    python: str
    framework: str
    service: str = "measure"
    device: str = ""
    ranks: int | None = None
    processes: int = 1
    shared_devices: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        if self.processes == 1:
            return ALONE
        return Cluster(processes=self.processes, shared_devices=self.shared_devices)


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Request(Generic[T_co]):
    """A request by name, such as ``measure``, and its values; a `kind` or a Failure answers it."""

    name: str
    kind: type[T_co]
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker answered, checked: a value of the request's kind, or a Failure."""

    answer: Any


# A Run of a thousand ranks takes less than one MiB.
MOST_REPLY_BYTES = 16 * 2**20

# In the log of a framework that aborts or crashes with SIGSEGV after its allocator failed.
_MEMORY_LAST_WORDS = re.compile(
    r"ran out of memory|[Oo]ut of memory|OOM when allocating|bad_alloc|Cannot allocate memory"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A worker that gave no reply: it hung until the deadline, or its process is over.

    `exit_code` is negative for a signal; None for a hang, and if the worker was killed for an
    invalid reply: `refused` says what is wrong with it. `stopped`: a signal had stopped it, so that
    it could not answer. `reason` is the line of its log that says why it ended. `oom_kills` is how
    many processes the kernel killed for memory meanwhile, and `pids_max` a limit of processes and
    threads that was reached meanwhile.
    `lost`: what is not reached any more, with its host, so that nothing else is known.
    """

    exit_code: int | None
    log: str
    oom_kills: int
    waited_s: float
    refused: str = ""
    stopped: bool = False
    lost: str = ""
    reason: str = ""
    pids_max: int | None = None


def ended_of(found: Exit | None, waited_s: float, lost: str = "") -> Ended:
    """A worker that must be ended hung; of one that is `lost` nothing is known."""
    if found is None:
        return Ended(exit_code=None, log="", oom_kills=0, waited_s=waited_s, lost=lost)
    return Ended(
        exit_code=found.exit_code if found.by_itself else None,
        log=found.log,
        oom_kills=found.oom_kills,
        waited_s=waited_s,
        reason=found.reason,
        pids_max=found.pids_max,
    )


class Member(ABC):
    """A running worker; every way out ends its process. `host` is "" for this host."""

    host: str = ""

    def __init__(self, launch: LaunchId, clock: Callable[[], float]) -> None:
        self.launch = launch
        self._clock = clock
        self._begun_s = clock()
        self._kind: type = NoneType
        self._said = bytearray()

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process, which nothing but another one continues."""

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor of the replies, so that `select` can watch several workers at once."""

    def send(self, request: Request[Any] | None) -> None:
        """Send `request` (None: just listen) without waiting; the reply is read by `received`.

        A worker that was just started says that it is ready, without a request and a value.
        """
        self._begun_s = self._clock()
        self._kind = request.kind if request else NoneType
        self._write(request_line(request) if request is not None else b"")

    @abstractmethod
    def received(self) -> Reply | Ended | None:
        """Read what there is, once `select` says so; None while a reply is incomplete.

        An Ended at the end of the channel, and for anything that is not a reply to the request;
        the process has ended then.
        """

    def timed_out(self) -> Ended:
        """Have the worker print its stack into the log, then kill it."""
        waited_s, stopped = self._waited_s, self.is_stopped
        self._print_stack()
        self.kill()
        return replace(self._end(waited_s), exit_code=None, stopped=stopped)

    @abstractmethod
    def hang_up(self) -> None:
        """Close the channel, at which the worker exits by itself; does not wait for it."""

    @abstractmethod
    def close(self) -> bool:
        """Wait for the worker to exit, and kill it if it does not; whether it exited."""

    @abstractmethod
    def interrupt(self) -> None:
        """Kill the process, from any thread; the thread that asks then sees its end."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the worker, with what it started, and wait for it."""

    @property
    def _waited_s(self) -> float:
        return self._clock() - self._begun_s

    def _answered(self, read: bytes) -> Reply | Ended | None:
        """A worker that answers something else is killed: no later reply could be trusted."""
        try:
            return self._reply(read)
        except wire.WireError as error:
            waited_s = self._waited_s
            self.kill()
            return replace(self._end(waited_s), exit_code=None, refused=str(error))

    def _reply(self, read: bytes) -> Reply | None:
        """None while it is incomplete. Raises WireError for anything that is not the reply."""
        self._said += read
        if b"\n" not in read:
            if len(self._said) > MOST_REPLY_BYTES:
                raise wire.WireError(f"more than {MOST_REPLY_BYTES} bytes")
            return None
        line, _, more = bytes(self._said).partition(b"\n")
        self._said.clear()
        if more:
            raise wire.WireError("more than one")
        return checked_reply(line, self._kind)

    @abstractmethod
    def _write(self, line: bytes) -> None:
        """Send the line of a request; it is empty for none."""

    @abstractmethod
    def _print_stack(self) -> None:
        """Have it print its stack, for which it has time, and end it."""

    @abstractmethod
    def _end(self, waited_s: float) -> Ended:
        """How it ended, as far as that is its own doing."""


class HostError(Exception):
    """Why a host cannot measure; the message is the sentence that the user reads."""


class HostLostError(HostError):
    """A host that took part does not answer any more, and is not reached again."""


class IncomparableHostsError(HostError):
    """Hosts that cannot measure together, since they do not run the same software."""


class Transport(ABC):
    """Starts workers, on this host or elsewhere."""

    def join(self, wait_s: float) -> None:  # noqa: B027 this host is there
        """Wait until all hosts take part. Raises HostError."""

    def lock(  # noqa: B027 this host is locked already
        self, wait_s: float, say: Callable[[str], None] = lambda words: None
    ) -> None:
        """Keep other sessions from measuring there. Raises BusyError and HostLostError."""

    def close(self) -> None:  # noqa: B027 nothing of this host's is left
        """End what was started to start workers."""

    def interpreter(self, starter: Starter) -> str:
        return starter.python

    @abstractmethod
    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        """Where the members of `cluster` are, with addresses by which they reach each other."""

    @abstractmethod
    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Member:
        """Start a worker, as a `member` of its cluster or, with None, by itself."""


class HostsTransport(Transport):
    """A transport that starts workers on several hosts."""

    # The names of the hosts, in the order of ranks; empty before `join`.
    names: Sequence[str] = ()

    @abstractmethod
    def for_ranks(self, ranks: Sequence[int]) -> Transport:
        """Return a transport that starts workers on the hosts of `ranks` alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosts:
    """The `count` hosts that options name; `transport` connects to them with a session's files."""

    count: int
    transport: Callable[[Bundle], HostsTransport]


def request_line(request: Request[Any]) -> bytes:
    values = {name: wire.to_json(value) for name, value in request.values.items()}
    return json.dumps({"request": request.name, **values}).encode() + b"\n"


def checked_reply(line: bytes, kind: type) -> Reply:
    """Read the reply to a request for a `kind`. Raises WireError, with what was expected."""
    document = wire.parsed(line)
    if not isinstance(document, dict) or set(document) != {"reply", "value"}:
        raise wire.WireError("expected an object with a reply and a value")
    name, value = wire.from_json(str, document["reply"], "reply.reply"), document["value"]
    kinds = {one.__name__: one for one in (kind, Failure)}
    if name not in kinds:
        raise wire.WireError(f"reply: expected {' or '.join(kinds)}, got {name[:60]!r}")
    return Reply(wire.from_json(kinds[name], value, name))


def failure_of(ended: Ended, launch: LaunchId, doing: str) -> Failure:
    kind, message, found = _classified(ended)
    return Failure(
        kind=kind,
        message=f"{message} while {doing}{_why(ended, kind)}",
        launch=launch,
        exit_code=ended.exit_code,
        log=ended.log,
        found=found,
    )


def _classified(ended: Ended) -> tuple[FailureKind, str, FoundBy | None]:
    code = ended.exit_code
    if ended.lost:
        return FailureKind.KILLED, ended.lost, None
    if ended.refused:
        return FailureKind.CRASHED, f"the worker's reply is invalid ({ended.refused})", None
    if code is None:
        waited = f"{round(ended.waited_s, 1):g} s"
        why = ", as a signal has stopped it," if ended.stopped else ""
        return FailureKind.TIMEOUT, f"the worker did not answer within {waited}{why}", None
    if code == -signal.SIGKILL and ended.oom_kills:
        text = "the kernel killed the worker for memory"
        return FailureKind.OUT_OF_MEMORY, text, FoundBy.KILLED
    if code == -signal.SIGKILL:
        return FailureKind.KILLED, "the worker was killed (SIGKILL)", None
    if code != 0 and _MEMORY_LAST_WORDS.search(ended.log):
        return FailureKind.OUT_OF_MEMORY, "the framework ran out of memory and died", FoundBy.RAISED
    if code < 0:
        return FailureKind.CRASHED, f"the worker died of {_signal_name(-code)}", None
    return FailureKind.CRASHED, f"the worker ended with exit code {code}", None


def _why(ended: Ended, kind: FailureKind) -> str:
    """Return what the kernel and the log say of an end that does not explain itself."""
    if ended.refused or kind not in (FailureKind.CRASHED, FailureKind.TIMEOUT):
        return ""
    limit, reason = ended.pids_max, ended.reason
    reached = f"; pids.max ({limit} processes and threads) was reached" if limit else ""
    return f"{reached}: {reason}" if reason else reached


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
