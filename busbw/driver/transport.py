"""The interface to worker processes on any host: start them, send requests, check replies.

A transport starts workers on this host or on other hosts. It implements the classes Transport and
Worker, and groups and schedules use only these classes. A worker runs a framework under an
interpreter of the user, so its output is not trusted: anything but a valid reply to the request
ends the process, and is never part of a result.
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
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import ALONE, Cluster, ClusterMember

from .bundle import Bundle

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# A Run of a thousand ranks takes less than one MiB.
MOST_REPLY_BYTES = 16 * 2**20


class HostError(Exception):
    """An error of a host that cannot measure. The message is the sentence that the user reads."""


class HostLostError(HostError):
    """The loss of a host or worker, which has ended or does not reply.

    Before the first measurement all cases fail. Later, measuring ends, and the cases with too few
    launches fail.
    """


class IncomparableHostsError(HostError):
    """A difference of software or devices, because of which hosts cannot measure together."""


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """The command, the devices and the environment with which the workers of a launch are started.

    Args:
        framework: The name of the framework.
        python: The path of the Python; empty for the Python of the process that starts the worker.
        service: The service of the worker: a name in the table SERVICES of `busbw.worker.serve`, or
            in the table WORKER_SERVICES of an extension.
        device: The class of device to use, such as ``gpu``; empty to let the framework choose.
        ranks: The number of ranks of all processes together; None for the default of the device.
        cluster: The number of processes of a launch, which have equal numbers of ranks, and of the
            GPUs that they share; ALONE for a single process that belongs to no group.
        environment: Environment variables to set. The worker inherits all others from the process
            that starts it.
        unset_variables: The names of inherited environment variables to remove.
        default_variables: Environment variables to set if they are neither inherited nor in
            `environment`.

    """

    framework: str
    python: str = ""
    service: str = "measure"
    device: str = ""
    ranks: int | None = None
    cluster: Cluster = ALONE
    environment: Mapping[str, str] = field(default_factory=dict)
    unset_variables: tuple[str, ...] = ()
    default_variables: Mapping[str, str] = field(default_factory=dict)


class Ending(enum.StrEnum):
    """A way to end a worker process.

    CLOSE: close its channel, so that it exits by itself. STACK: let it print the stacks of its
    threads, and then kill it. KILL: kill it at once.
    """

    CLOSE = "close"
    STACK = "stack"
    KILL = "kill"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """The end of a worker process, and its circumstances.

    Args:
        exit_code: The exit code, negative for a signal. None if the process had to be killed,
            because it hung or sent an invalid reply, and None if the host is lost.
        log: The last characters of the process's log.
        reason: The line of the log that says why the process ended, empty if unknown.
        oom_kills: The number of processes on the host that the kernel killed for lack of memory
            since the last request.
        pids_max: The limit on processes and threads if it was reached since the last request,
            otherwise None.
        waited_s: The seconds since the last request was sent.
        reply_error: The error in the reply, empty if no invalid reply was received.
        is_stopped: Whether a signal such as SIGSTOP had stopped the process.
        host_loss: The reason why the host cannot be reached any more; empty if it can be reached.
            The other fields are unknown for a process on a lost host.

    """

    exit_code: int | None
    log: str = ""
    reason: str = ""
    oom_kills: int = 0
    pids_max: int | None = None
    waited_s: float = 0.0
    reply_error: str = ""
    is_stopped: bool = False
    host_loss: str = ""


@dataclass(frozen=True, slots=True)
class Request(Generic[T_co]):
    """A request to a worker, such as ``measure``.

    `values` maps the names of the request's arguments to their values. The reply to the request has
    the type `reply_type`, or is a Failure.
    """

    name: str
    reply_type: type[T_co]
    values: Mapping[str, object] = field(default_factory=dict)

    def json_line(self) -> bytes:
        """Return the request as a line of JSON."""
        values = {name: wire.to_json(value) for name, value in self.values.items()}
        return json.dumps({"request": self.name, **values}).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's checked reply: `answer` is a value of the requested type, or a Failure."""

    answer: Any


class Worker(ABC):
    """A worker process on this host or on another host, whose replies are checked.

    `host` is the name of the other host, empty for this host. `launch` names the process. A
    subclass implements how requests are sent, replies are read and the process is ended.
    """

    host: str = ""

    def __init__(self, launch: LaunchId) -> None:
        self.launch = launch
        self._reply_type: type = NoneType
        self._partial_reply = bytearray()
        self._sent_at_s = time.monotonic()

    def send(self, request: Request[Any] | None) -> None:
        """Send `request` without waiting for the reply, which `receive` reads.

        With None nothing is sent, and the next reply is the first reply of the worker, which says
        that the worker is ready.
        """
        self._sent_at_s = time.monotonic()
        self._reply_type = NoneType if request is None else request.reply_type
        if request is not None:
            self.write(request.json_line())

    def receive(self) -> Reply | Exit | None:
        """Wait for bytes of the worker; return its reply, or None if the reply is incomplete.

        Returns an Exit if the process has ended, or if the bytes are not a valid reply to the
        request. In the second case the process is killed.
        """
        content = self.read()
        if not content:
            return self.end_and_wait(Ending.CLOSE)
        try:
            return self._add_to_reply(content)
        except wire.WireError as error:
            # After an invalid reply no later reply can be trusted.
            return replace(self.end_and_wait(Ending.KILL), exit_code=None, reply_error=str(error))

    def end_and_wait(self, ending: Ending) -> Exit:
        """End the process as `ending` says, wait for it, and return how it ended."""
        waited_s = time.monotonic() - self._sent_at_s
        is_stopped = ending is Ending.STACK and self.is_stopped
        self.request_end(ending)
        return replace(self.wait(), waited_s=waited_s, is_stopped=is_stopped)

    def _add_to_reply(self, content: bytes) -> Reply | None:
        """Add `content` to the reply, and return the reply, or None while it is incomplete.

        Raises WireError for an invalid reply.
        """
        self._partial_reply += content
        if len(self._partial_reply) > MOST_REPLY_BYTES:
            raise wire.WireError(f"more than {MOST_REPLY_BYTES} bytes")
        if b"\n" not in content:
            return None
        line, _, following = bytes(self._partial_reply).partition(b"\n")
        self._partial_reply.clear()
        if following:
            raise wire.WireError("more than one")
        return parse_reply(line, self._reply_type)

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether a signal such as SIGSTOP has stopped the process."""

    @abstractmethod
    def fileno(self) -> int:
        """Return a file descriptor for `select.poll`; it is readable when `read` need not wait."""

    @abstractmethod
    def write(self, line: bytes) -> None:
        """Send the line of a request without waiting.

        A part of the line is lost if the process does not read its requests.
        """

    @abstractmethod
    def read(self) -> bytes:
        """Wait for the next bytes of a reply; return ``b""`` after the last reply of a process."""

    @abstractmethod
    def request_end(self, ending: Ending) -> None:
        """Begin to end the process, without waiting for its end.

        Any thread may call this. Afterwards `read` returns ``b""``.
        """

    @abstractmethod
    def wait(self) -> Exit:
        """Wait for the end of the process, which `request_end` has begun, and return how it ended.

        The process is killed if it does not end within its grace period.
        """


def parse_reply(line: bytes, reply_type: type) -> Reply:
    """Parse the line of a reply, whose value must be of the type `reply_type` or a Failure.

    Raises WireError with the expected type if the line is not such a reply.
    """
    document = wire.parse_json(line)
    if not isinstance(document, dict) or set(document) != {"reply", "value"}:
        raise wire.WireError("expected an object with a reply and a value")
    name = wire.from_json(str, document["reply"], "reply.reply")
    value = document["value"]
    kinds = {reply_type.__name__: reply_type, Failure.__name__: Failure}
    if name not in kinds:
        raise wire.WireError(f"reply: expected {' or '.join(kinds)}, got {name[:60]!r}")
    answer: Any = wire.from_json(kinds[name], value, name)
    if isinstance(answer, Run):
        # Values of extensions are stored. A value that later sessions could not read is refused.
        answer = replace(
            answer, extra=extensions.with_declared_types(answer.extra, f"{name}.extra")
        )
    return Reply(answer)


class Transport(ABC):
    """Starts worker processes on one or more hosts."""

    def join(self, wait_s: float) -> None:  # noqa: B027 this host takes part
        """Connect to all hosts.

        Raises HostError if a host cannot be reached, or does not join within `wait_s` seconds.
        """

    def lock(  # noqa: B027 the session has locked this host
        self, wait_s: float, report: Callable[[str], None] = lambda text: None
    ) -> None:
        """Keep other sessions from measuring on the hosts, until the transport is closed.

        `report` is called with a sentence for the user before waiting for another session. Raises
        HostError if another session still measures after `wait_s` seconds.
        """

    def close(self) -> None:  # noqa: B027 nothing was started on this host
        """End the connections to the hosts, and with them all workers on the hosts."""

    @abstractmethod
    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        """Return the members of `cluster`, with addresses by which they reach each other."""

    @abstractmethod
    def start(
        self, worker_spec: WorkerSpec, launch: LaunchId, member: ClusterMember | None
    ) -> Worker:
        """Start a worker process as `worker_spec` says, and return it without waiting.

        `member` says which process of a group it is; None is a single process. Raises HostError if
        the worker cannot be started.
        """


class HostsTransport(Transport):
    """A transport that starts workers on several hosts.

    `names` are the names of the hosts in the order of their indices, empty before `join`.
    """

    names: Sequence[str] = ()

    @abstractmethod
    def for_hosts(self, indices: Sequence[int]) -> Transport:
        """Return a transport that starts workers only on the hosts with these indices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosts:
    """The hosts that options name: their number, and a function that makes their transport.

    The function `make_transport` takes the folder of a session, whose files are sent to the hosts.
    """

    count: int
    make_transport: Callable[[Bundle], HostsTransport]
