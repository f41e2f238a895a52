"""Answers the requests that the driver sends over a worker's private channel.

A request is a line of JSON and has exactly one reply. Standard output and standard error are the
log of the worker and carry no replies. A worker is started for a single service, and imports no
module that only other services need.
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

# The function of each service, by the service's name. The function takes the options of the
# worker's command line, and returns the session, which the operations use. Extensions add services
# in a table WORKER_SERVICES.
SERVICES: Mapping[str, str] = {
    "measure": "busbw.worker.measure:open_session",
}

# The function of each request, by the request's name. The function takes the session and the
# request, and returns the reply. Extensions add operations in a table WORKER_OPERATIONS.
OPERATIONS: Mapping[str, str] = {
    "probe": "busbw.worker.measure:probe",
    "measure": "busbw.worker.measure:measure",
    "open": "busbw.worker.measure:open_case",
    "sample": "busbw.worker.measure:MeasureSession.take_sample",
    "close": "busbw.worker.measure:MeasureSession.close_case",
    "release": "busbw.worker.measure:MeasureSession.release_memory",
}


@dataclass(frozen=True)
class Channel:
    """The two directions of the private channel between this worker and the driver.

    `requests` are lines that the driver writes, and `replies` are lines that this worker writes.
    """

    requests: TextIO
    replies: TextIO

    def receive_requests(self) -> Iterator[dict[str, Any]]:
        """Yield each request, until the driver closes its end of the channel.

        Raises WireError if a line is no JSON object, or is not UTF-8.
        """
        try:
            for line in self.requests:
                request = wire.parse_json(line)
                if not isinstance(request, dict):
                    raise wire.WireError("request: expected an object")
                yield request
        except UnicodeDecodeError as error:
            raise wire.WireError(f"request: byte {error.start}: not UTF-8") from error

    def send_reply(self, value: Any) -> None:
        """Send the driver a reply, which is `value` with the name of its type."""
        reply = {"reply": type(value).__name__, "value": wire.to_json(value)}
        self.replies.write(json.dumps(reply) + "\n")
        self.replies.flush()


def request_value(request: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return the value `name` of a request.

    Raises WireError if the request has no such value, or a value that is not of the type `kind`.
    """
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(kind, request[name], name)


def serve(channel: Channel, session: Any, launch: LaunchId) -> None:
    """Answer each request with a value, or with a Failure, until the driver closes the channel.

    The first reply, before any request, is None: it tells the driver that this worker is ready.

    Args:
        channel: the channel to the driver.
        session: what the service of this worker opened, which is passed to each operation.
        launch: the launch that Failures name.

    """
    channel.send_reply(None)
    for request in channel.receive_requests():
        name = request_value(request, "request", str)
        operation = load_function(OPERATIONS, "WORKER_OPERATIONS", name)
        try:
            reply = operation(session, request)
        except MeasuringError as error:
            reply = error.to_failure(launch)
        channel.send_reply(reply)


def load_function(
    core_functions: Mapping[str, str], extension_table: str, name: str
) -> Callable[..., Any]:
    """Import and return the function `name` of the core or, if the core has none, of an extension.

    Args:
        core_functions: the places of the core's functions, ``"module:function"`` by name.
        extension_table: the name of the table in which extensions declare such functions.
        name: the name of the service or of the request.

    Raises:
        WireError: neither the core nor an extension has the function.

    """
    functions = (
        [resolve_name(core_functions[name])]
        if name in core_functions
        else extensions.load_functions(name, extension_table)
    )
    if not functions:
        raise wire.WireError(f"request: expected a name of {extension_table}, got {name!r}")
    function: Callable[..., Any] = functions[0]
    return function
