"""Answer the requests that come over a worker's private channel, until the driver closes it.

A request is one line of JSON and has exactly one reply. Standard output and standard error are the
log of the worker and carry no replies. A worker is started for one service, and imports nothing
that only other services need.
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

# Functions by the name of a service: each takes the options of the worker's command line and
# returns the session that operations use. Extensions add services in a table WORKER_SERVICES.
SERVICES: Mapping[str, str] = {
    "measure": "busbw.worker.measure:open_session",
}

# Functions by the name of a request: each takes the session and the request and returns the reply.
# Extensions add operations in a table WORKER_OPERATIONS.
OPERATIONS: Mapping[str, str] = {
    "probe": "busbw.worker.measure:probe",
    "measure": "busbw.worker.measure:measure",
    "open": "busbw.worker.measure:open_case",
    "sample": "busbw.worker.measure:MeasureSession.take_sample",
    "close": "busbw.worker.measure:MeasureSession.close",
    "release": "busbw.worker.measure:MeasureSession.release",
}


@dataclass(frozen=True)
class Channel:
    """The private channel to the driver."""

    requests: TextIO
    replies: TextIO

    def receive(self) -> Iterator[dict[str, Any]]:
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
    """Return a value of a request. Raises WireError if it is missing or not a `kind`."""
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(kind, request[name], name)


def serve(channel: Channel, session: Any, launch: LaunchId) -> None:
    """Answer requests until the driver closes the channel. The first reply says "ready"."""
    channel.send(None)
    for request in channel.receive():
        name = value_of(request, "request", str)
        operation = load_function(OPERATIONS, "WORKER_OPERATIONS", name)
        try:
            answer = operation(session, request)
        except MeasuringError as error:
            answer = error.failure(launch)
        channel.send(answer)


def load_function(core: Mapping[str, str], table: str, name: str) -> Callable[..., Any]:
    """Load the function `name` from a table of the core or of an extension. Raises WireError."""
    functions = (
        [resolve_name(core[name])] if name in core else extensions.load_functions(name, table)
    )
    if not functions:
        raise wire.WireError(f"request: expected a name of {table}, got {name!r}")
    function: Callable[..., Any] = functions[0]
    return function
