"""Answers the requests that the driver sends over a worker's private channel.

A request is a line of JSON and has exactly one reply. Standard output and standard error are the
log of the worker and carry no replies. A worker is started for a single service, and imports no
module that only other services need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any, TextIO, TypeVar

from busbw import extensions, wire
from busbw.model.launch import LaunchId
from busbw.worker.backends.base import MeasuringError

T = TypeVar("T")

# The function of each service, as "module:function" by the name of the service. The function is
# called once, with the options of the worker's command line. It returns the session, which is
# passed to the operations. Extensions add services in their tables WORKER_SERVICES.
SERVICES: Mapping[str, str] = {
    "measure": "busbw.worker.measure:open_session",
}

# The function of each kind of request, as "module:function" by the name of the request. It is
# called with the session and the request, and returns the reply. Extensions add operations in their
# tables WORKER_OPERATIONS.
OPERATIONS: Mapping[str, str] = {
    "probe": "busbw.worker.measure:probe",
    "measure": "busbw.worker.measure:CaseMeasurer.measure",
    "open": "busbw.worker.measure:CaseMeasurer.open_case",
    "sample": "busbw.worker.measure:CaseMeasurer.take_sample",
    "close": "busbw.worker.measure:CaseMeasurer.close_case",
    "release": "busbw.worker.measure:CaseMeasurer.release_memory",
}


def send_reply(replies: TextIO, value: Any) -> None:
    """Write a line of JSON to `replies` with `value` and the name of its type."""
    reply = {"reply": type(value).__name__, "value": wire.to_json(value)}
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def request_value(request: Mapping[str, Any], name: str, value_type: type[T]) -> T:
    """Parse the value `name` of a request as a `value_type`, and return it.

    Raises WireError if the request has no value with this name, or if its type is another type.
    """
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(value_type, request[name], name)


def serve(requests: TextIO, replies: TextIO, session: Any, launch: LaunchId) -> None:
    """Answer each request with a value or a Failure, until the driver closes the channel.

    The first reply, before any request, is None: it tells the driver that this worker is ready.

    Args:
        requests: the stream from the driver.
        replies: the stream to the driver.
        session: the return value of the service's function, which is passed to each operation.
        launch: the id of the launch, which is stored in each Failure.

    """
    send_reply(replies, None)
    for line in requests:
        request = wire.parse_json(line)
        name = request_value(request, "request", str)
        operation = load_function(OPERATIONS, "WORKER_OPERATIONS", name)
        try:
            reply = operation(session, request)
        except MeasuringError as error:
            reply = error.to_failure(launch)
        send_reply(replies, reply)


def load_function(
    core_functions: Mapping[str, str], extension_table: str, name: str
) -> Callable[..., Any]:
    """Import and return the function of a service or of a request.

    Args:
        core_functions: maps the names of the core's functions to texts ``"module:function"``.
        extension_table: the name of the extensions' tables of such functions. These tables are
            searched if the core has no function with the name.
        name: the name of the service or of the request.

    Raises:
        WireError: neither the core nor an extension has a function with this name.

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
