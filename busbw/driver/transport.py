"""Where worker processes run, what is requested from them, and what they reply.

A transport starts workers on this host or on other hosts. It implements Transport and Worker;
groups and schedules know nothing else of it. A worker runs code that is not ours, under an
interpreter that is not ours: anything but a valid reply to the request ends the process, and is
never part of a result.
"""

from __future__ import annotations

import enum
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Generic, TypeVar

from busbw import extensions, wire
from busbw.model.cluster import ALONE, Cluster, ClusterMember
from busbw.model.launch import Failure, LaunchId, Run

from .bundle import Bundle

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# A Run of a thousand ranks takes less than one MiB.
MOST_REPLY_BYTES = 16 * 2**20


class HostError(Exception):
    """A host cannot measure; the message is the sentence that the user reads."""


class HostLostError(HostError):
    """A host or a worker that took part ended or does not reply, so that every case fails."""


class IncomparableHostsError(HostError):
    """Hosts or processes that cannot measure together, since they do not run the same software."""


@dataclass(frozen=True, kw_only=True)
class Starter:
    """How to start a worker: which interpreter, for which framework, service and device.

    An empty `python` is the interpreter of the process that starts the worker. `service` is the
    session that the worker opens, from a table in `busbw.worker.serve` or in an extension.
    With several `processes` a worker is a group of processes, each with its part of the ranks; the
    processes share `shared_devices` GPUs, or have devices of their own where that is 0.
    The environment is that of the process that starts the worker without `unset`, with
    `environment`, and with `defaults` for variables that neither has.
    """

    framework: str
    python: str = ""
    service: str = "measure"
    device: str = ""
    ranks: int | None = None
    processes: int = 1
    shared_devices: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        if self.processes == 1:
            return ALONE
        return Cluster(processes=self.processes, shared_devices=self.shared_devices)


class Ending(enum.StrEnum):
    """How a process is ended: it exits by itself, prints its stack first, or is killed."""

    CLOSE = "close"
    STACK = "stack"
    KILL = "kill"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How a worker ended that gave no reply, or was closed.

    `exit_code` is negative for a signal, and None where the process had to be ended: it hung, or
    its reply was invalid. `log` is the end of its log, and `reason` the line of the log that says
    why the process ended. `oom_kills` is how many processes the kernel killed for memory since the
    request, which was `waited_s` ago, and `pids_max` a limit of processes and threads that was
    reached since then. `invalid` says what is wrong with a reply. `is_stopped`: a
    signal had stopped the process, so that it could not reply. `lost` says that the host is not
    reached any more, so that nothing else is known.
    """

    exit_code: int | None
    log: str = ""
    reason: str = ""
    oom_kills: int = 0
    pids_max: int | None = None
    waited_s: float = 0.0
    invalid: str = ""
    is_stopped: bool = False
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Request(Generic[T_co]):
    """A request by name, such as ``measure``; the reply is a `kind` or a Failure."""

    name: str
    kind: type[T_co]
    values: Mapping[str, object] = field(default_factory=dict)

    def line(self) -> bytes:
        values = {name: wire.to_json(value) for name, value in self.values.items()}
        return json.dumps({"request": self.name, **values}).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's checked reply: a value of the request's kind, or a Failure."""

    answer: Any


class Worker(ABC):
    """A worker process on any host: takes requests, and its replies are checked.

    `host` is "" for this host.
    """

    host: str = ""

    def __init__(self, launch: LaunchId) -> None:
        self.launch = launch
        self._kind: type = NoneType
        self._content = bytearray()
        self._begin_s = time.monotonic()

    def send(self, request: Request[Any] | None) -> None:
        """Send `request` without waiting; `receive` reads the reply.

        A worker that was just started says that it is ready, without a request.
        """
        self._begin_s = time.monotonic()
        self._kind = NoneType if request is None else request.kind
        if request is not None:
            self.write(request.line())

    def receive(self) -> Reply | Exit | None:
        """Read once the worker is readable; return None for a part of a reply.

        Return an Exit at the end of the process, and for anything that is not a reply to the
        request; the process has ended then.
        """
        content = self.read()
        if not content:
            return self.finish(Ending.CLOSE)
        try:
            return self._reply(content)
        except wire.WireError as error:
            # No later reply could be trusted.
            return replace(self.finish(Ending.KILL), exit_code=None, invalid=str(error))

    def finish(self, ending: Ending) -> Exit:
        """End the process, and wait for it."""
        waited_s = time.monotonic() - self._begin_s
        is_stopped = ending is Ending.STACK and self.is_stopped
        self.end(ending)
        return replace(self.wait(), waited_s=waited_s, is_stopped=is_stopped)

    def _reply(self, content: bytes) -> Reply | None:
        """Return None while the reply is incomplete. Raises WireError for an invalid reply."""
        self._content += content
        if len(self._content) > MOST_REPLY_BYTES:
            raise wire.WireError(f"more than {MOST_REPLY_BYTES} bytes")
        if b"\n" not in content:
            return None
        line, _, following = bytes(self._content).partition(b"\n")
        self._content.clear()
        if following:
            raise wire.WireError("more than one")
        return checked_reply(line, self._kind)

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process, which only another signal continues."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor that is readable once `read` does not wait."""

    @abstractmethod
    def write(self, line: bytes) -> None:
        """Send a request; its end is lost if the process does not read."""

    @abstractmethod
    def read(self) -> bytes:
        """Wait for a part of a reply; return nothing once the process replies no more."""

    @abstractmethod
    def end(self, ending: Ending) -> None:
        """Begin to end the process, from any thread; `read` returns nothing then."""

    @abstractmethod
    def wait(self) -> Exit:
        """Wait for the end, which has begun, and kill the process after its grace period."""


def checked_reply(line: bytes, kind: type) -> Reply:
    """Read the reply to a request for a `kind`. Raises WireError, with what was expected."""
    document = wire.parsed(line)
    if not isinstance(document, dict) or set(document) != {"reply", "value"}:
        raise wire.WireError("expected an object with a reply and a value")
    name, value = wire.from_json(str, document["reply"], "reply.reply"), document["value"]
    kinds = {kind.__name__: kind, Failure.__name__: Failure}
    if name not in kinds:
        raise wire.WireError(f"reply: expected {' or '.join(kinds)}, got {name[:60]!r}")
    answer: Any = wire.from_json(kinds[name], value, name)
    if isinstance(answer, Run):
        # Values of extensions are stored: a value that no later session reads is refused.
        answer = replace(
            answer, extra=extensions.with_declared_types(answer.extra, f"{name}.extra")
        )
    return Reply(answer)


class Transport(ABC):
    """Starts workers, on this host or elsewhere."""

    def join(self, wait_s: float) -> None:  # noqa: B027 this host takes part
        """Wait until all hosts take part. Raises HostError."""

    def lock(  # noqa: B027 the session has locked this host
        self, wait_s: float, report: Callable[[str], None] = lambda text: None
    ) -> None:
        """Keep other sessions from measuring on the hosts. Raises HostError."""

    def close(self) -> None:  # noqa: B027 nothing was started on this host
        """End what was started to start workers."""

    @abstractmethod
    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        """Return the members of `cluster`, with addresses by which they reach each other."""

    @abstractmethod
    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        """Start a worker, as a `member` of its cluster or, with None, by itself.

        Raises HostError, and OSError where this session has too many open files.
        """


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
