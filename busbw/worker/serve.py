"""What a worker answers: requests from its private channel, until the driver closes that.

One JSON document a line; each request has exactly one reply. stdout and stderr are a log and carry
none. A worker is started for one service, and imports nothing of what the others need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, TextIO, TypeVar

from busbw import extensions, wire
from busbw.model.launch import LaunchId
from busbw.worker.backends.base import MeasuringError

T = TypeVar("T")

# By the service that a worker is started for: the function that opens its session, of the options
# of the worker's command line. An extension has a table WORKER_SERVICES.
SERVICES: Mapping[str, str] = {
    "measure": "busbw.worker.measure:open_session",
    "counters": "busbw.worker.operations.counters:open_session",
}

# By the name of a request: the function that answers it, of the session and the request. An
# extension has a table WORKER_OPERATIONS.
OPERATIONS: Mapping[str, str] = {
    "probe": "busbw.worker.measure:probe",
    "measure": "busbw.worker.measure:measure",
    "open": "busbw.worker.measure:open_case",
    "turn": "busbw.worker.measure:turn",
    "close": "busbw.worker.measure:MeasureSession.close",
    "release": "busbw.worker.measure:MeasureSession.release",
    "counters": "busbw.worker.operations.counters:reading",
    "program": "busbw.worker.operations.user_program:user_program",
    "soak": "busbw.worker.operations.soak:soak",
}


@dataclass(frozen=True)
class Channel:
    """The private channel to the driver."""

    requests: TextIO
    replies: TextIO

    def received(self) -> Iterator[dict[str, Any]]:
        """Yield requests until the driver closes its end. Raises WireError for invalid requests."""
        try:
            for line in self.requests:
                request = wire.parsed(line)
                if not isinstance(request, dict):
                    raise wire.WireError("request: expected an object")
                yield request
        except UnicodeDecodeError as error:
            raise wire.WireError(f"request: byte {error.start}: not UTF-8") from error

    def send(self, value: Any) -> None:
        """Send a reply: a value, with the name of its type."""
        reply = {"reply": type(value).__name__, "value": wire.to_json(value)}
        self.replies.write(json.dumps(reply) + "\n")
        self.replies.flush()


def value_of(request: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a value of a request. Raises WireError where it is missing or is not a `kind`."""
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(kind, request[name], name)


def serve(channel: Channel, session: Any, launch: LaunchId) -> None:
    """Answer requests until the driver closes the channel."""
    channel.send(None)
    for request in channel.received():
        name = value_of(request, "request", str)
        operation = function_of(OPERATIONS, "WORKER_OPERATIONS", name)
        try:
            answer = operation(session, request)
        except MeasuringError as error:
            answer = error.failure(launch)
        channel.send(answer)


def function_of(own: Mapping[str, str], table: str, name: str) -> Callable[..., Any]:
    """Load a function of a table of this file, or of an extension's. Raises WireError."""
    functions = [resolve_name(own[name])] if name in own else extensions.hooks(name, table)
    if not functions:
        raise wire.WireError(f"request: there is no {name!r}")
    found: Callable[..., Any] = functions[0]
    return found
