"""The interface to worker processes on any host: start workers, send requests, check replies.

A transport starts workers on this host or on other hosts. Each kind of transport implements the
abstract classes Transport and Worker, and groups and schedules use only these classes. A worker
runs a framework under an interpreter of the user, so the worker's output is not trusted: anything
but a valid reply to the request ends the process, and is never part of a result.
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
from busbw.model.machine import NO_GROUP, GroupMember, ProcessGroupSize

from .bundle import Bundle

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# A Run of a thousand ranks takes less than one MiB.
MAX_REPLY_BYTES = 16 * 2**20


class HostError(Exception):
    """An error because of which a host cannot measure; the message is a sentence for the user."""


class HostLostError(HostError):
    """An error because a host or a worker has ended, or does not reply.

    If this error is raised before the first measurement, all cases fail. If it is raised later,
    measuring ends, and only the cases with too few launches fail.
    """


class IncomparableHostsError(HostError):
    """An error because hosts with different software or devices cannot measure together."""


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """The command, the devices and the environment with which the workers of a launch are started.

    Attributes:
        framework: The name of the framework that the workers import, such as ``jax``.
        python: The path of the workers' interpreter; empty for the interpreter of the process that
            starts the workers.
        service: The kind of work that the workers do: a name in the table SERVICES of
            `busbw.worker.serve`, or in the table WORKER_SERVICES of an extension.
        device: The class of device to use, such as ``gpu``; empty to let the framework choose.
        ranks: The number of ranks of all processes together; None for the default of the device.
        cluster: How many processes a launch has, and how many GPUs these processes share. All
            processes have equally many ranks. NO_GROUP is a single process that belongs to no
            group.
        environment: Environment variables to set. The workers inherit all other variables from the
            process that starts the workers.
        unset_variables: The names of inherited environment variables to remove.
        default_variables: Environment variables to set if they are neither inherited nor in
            `environment`.

    """

    framework: str
    python: str = ""
    service: str = "measure"
    device: str = ""
    ranks: int | None = None
    cluster: ProcessGroupSize = NO_GROUP
    environment: Mapping[str, str] = field(default_factory=dict)
    unset_variables: tuple[str, ...] = ()
    default_variables: Mapping[str, str] = field(default_factory=dict)


class EndMethod(enum.StrEnum):
    """A way to end a worker process.

    Attributes:
        CLOSE: Close the worker's channel of requests, so that the worker exits by itself.
        STACK: Let the worker print the stacks of its threads, and then kill the worker.
        KILL: Kill the worker at once.

    """

    CLOSE = "close"
    STACK = "stack"
    KILL = "kill"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerExit:
    """The end of a worker process: its exit code, and the known circumstances.

    Attributes:
        exit_code: The exit code, negative for a signal. None if the process had to be killed,
            because the process hung or sent an invalid reply, and None if the host is lost.
        log: The end of the process's log, as text.
        reason: The line of the log that says why the process ended, empty if unknown.
        oom_kills: The number of processes on the host that the kernel killed for lack of memory
            since the last request.
        reached_pids_limit: The limit on the number of processes and threads, if the limit was
            reached since the last request. Otherwise None.
        waited_s: The seconds from the last request until the process was ended.
        reply_error: The error in an invalid reply; empty if no invalid reply was received.
        is_suspended: Whether the process hung because a signal such as SIGSTOP had stopped it.
        lost_host_text: The reason why the host of the process cannot be reached any more. Empty if
            the host can be reached. On a lost host, the other fields are unknown.

    """

    exit_code: int | None
    log: str = ""
    reason: str = ""
    oom_kills: int = 0
    reached_pids_limit: int | None = None
    waited_s: float = 0.0
    reply_error: str = ""
    is_suspended: bool = False
    lost_host_text: str = ""


@dataclass(frozen=True, slots=True)
class Request(Generic[T_co]):
    """A request to a worker, such as ``measure``.

    Attributes:
        name: The name of the request.
        reply_type: The type of the reply, unless the reply is a Failure.
        values: The arguments of the request, by the name of the argument.

    """

    name: str
    reply_type: type[T_co]
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """A checked reply of a worker: `answer` is a Failure, or has the request's `reply_type`."""

    answer: Any


class Worker(ABC):
    """A worker process on this host or on another host, whose replies are checked.

    A subclass implements how requests are sent, replies are read and the process is ended.

    Attributes:
        host: The name of the worker's host, if the worker runs on another host. Empty on this host.
        launch: The id of the launch, with the name of the process if the launch has several.

    """

    host: str = ""

    def __init__(self, launch: LaunchId) -> None:
        self.launch = launch
        self._reply_type: type = NoneType
        self._partial_reply = bytearray()
        self._sent_at_s = time.monotonic()

    def send(self, request: Request[Any] | None) -> None:
        """Send `request` without waiting for the reply, which `receive` reads.

        If `request` is None, nothing is sent, and `receive` reads the first reply of the worker,
        which says that the worker is ready.
        """
        self._sent_at_s = time.monotonic()
        self._reply_type = NoneType if request is None else request.reply_type
        if request is not None:
            values = {name: wire.to_json(value) for name, value in request.values.items()}
            self.write(json.dumps({"request": request.name, **values}).encode() + b"\n")

    def receive(self) -> Reply | WorkerExit | None:
        """Wait for the next bytes of the worker, and return its reply if the reply is complete.

        Returns None if the reply is still incomplete. Returns a WorkerExit if the process has
        ended. If the bytes are not a valid reply to the request, the process is killed, and its
        WorkerExit is returned.
        """
        content = self.read()
        if not content:
            return self.end_and_wait(EndMethod.CLOSE)
        try:
            return self._add_to_reply(content)
        except wire.WireError as error:
            # After an invalid reply no later reply can be trusted.
            return replace(
                self.end_and_wait(EndMethod.KILL), exit_code=None, reply_error=str(error)
            )

    def end_and_wait(self, ending: EndMethod) -> WorkerExit:
        """End the process as `ending` says, wait for its end, and return the WorkerExit."""
        waited_s = time.monotonic() - self._sent_at_s
        is_suspended = ending is EndMethod.STACK and self.is_suspended
        self.request_end(ending)
        return replace(self.wait(), waited_s=waited_s, is_suspended=is_suspended)

    def _add_to_reply(self, content: bytes) -> Reply | None:
        """Add the bytes `content` to the reply; return the reply, or None if it is incomplete.

        Raises WireError if the reply is invalid.
        """
        self._partial_reply += content
        if len(self._partial_reply) > MAX_REPLY_BYTES:
            raise wire.WireError(f"more than {MAX_REPLY_BYTES} bytes")
        if b"\n" not in content:
            return None
        line, _, following = bytes(self._partial_reply).partition(b"\n")
        self._partial_reply.clear()
        if following:
            raise wire.WireError("more than one")
        return parse_reply(line, self._reply_type)

    @property
    @abstractmethod
    def is_suspended(self) -> bool:
        """Whether a signal such as SIGSTOP has stopped the process."""

    @abstractmethod
    def fileno(self) -> int:
        """Return a file descriptor for `select.poll`, readable as soon as `read` need not wait."""

    @abstractmethod
    def write(self, line: bytes) -> None:
        """Send `line`, a request as JSON with the line end, without waiting.

        A part of the line is lost if the process does not read its requests.
        """

    @abstractmethod
    def read(self) -> bytes:
        """Wait for the next bytes of a reply; return ``b""`` if the process sends no more bytes."""

    @abstractmethod
    def request_end(self, ending: EndMethod) -> None:
        """Begin to end the process as `ending` says, without waiting for the end of the process.

        Any thread may call this method. Afterwards `read` returns ``b""``.
        """

    @abstractmethod
    def wait(self) -> WorkerExit:
        """Wait for the end of the process after `request_end`, and return its WorkerExit.

        The process is killed if the process does not end within its grace period.
        """


def parse_reply(line: bytes, reply_type: type) -> Reply:
    """Return the Reply in `line`, a line of JSON that describes a `reply_type` or a Failure.

    Raises WireError, which names the expected types, if `line` describes neither.
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
    """A way to start worker processes on one or more hosts.

    `connect_hosts`, `lock` and `close` of this base class do nothing, as for workers on this host.
    """

    def connect_hosts(self, wait_s: float) -> None:  # noqa: B027 this host takes part
        """Connect to all hosts.

        Raises HostError if a host cannot be reached, or does not join within `wait_s` seconds.
        """

    def lock(  # noqa: B027 the session has locked this host
        self, wait_s: float, report: Callable[[str], None] = lambda text: None
    ) -> None:
        """Keep other sessions from measuring on the other hosts, until the transport is closed.

        If another session is measuring there, `report` is called with a sentence for the user
        before waiting. Raises HostError if that session still measures after `wait_s` seconds.
        """

    def close(self) -> None:  # noqa: B027 nothing was started on this host
        """End the connections to the hosts, and all workers on these hosts."""

    @abstractmethod
    def group_members(self, process_group: ProcessGroupSize) -> tuple[GroupMember, ...]:
        """Return a member for each process of the group, with the addresses of all members."""

    @abstractmethod
    def start(
        self, worker_spec: WorkerSpec, launch: LaunchId, member: GroupMember | None
    ) -> Worker:
        """Start a worker process as `worker_spec` says; return the worker without waiting for it.

        `launch` is the id of the launch. `member` says which process of a group the worker is; None
        means a single process. Raises HostError if the worker cannot be started.
        """


class HostsTransport(Transport):
    """A transport that starts workers on several hosts.

    Attributes:
        names: The names of the hosts in the order of their indices; empty before `connect_hosts`.

    """

    names: Sequence[str] = ()

    @abstractmethod
    def for_hosts(self, indices: Sequence[int]) -> Transport:
        """Return a transport that starts workers only on the hosts with the given indices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteHosts:
    """The hosts that options name, before the session connects to these hosts.

    Attributes:
        count: The number of hosts.
        make_transport: A function that returns a transport to the hosts. The argument of the
            function is the private folder of the session, whose files are sent to the hosts.

    """

    count: int
    make_transport: Callable[[Bundle], HostsTransport]
