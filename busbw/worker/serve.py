"""Answers the requests that the driver sends over a worker's private channel.

A request is a line of JSON and has exactly one reply. Standard output and standard error are the
log of the worker and carry no replies. A service is the work of a worker, such as measuring cases.
A worker is started for a single service, and imports no module that only other services need.
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
# called once, with the options of the worker's command line. The function returns the state of the
# worker, which is passed to the operations. Extensions add services in their tables
# WORKER_SERVICES.
SERVICES: Mapping[str, str] = {
    "measure": "busbw.worker.measure:make_worker_state",
}

# The function of each kind of request, as "module:function" by the name of the request. The
# function is called with the state of the worker and with the request, and returns the reply.
# Extensions add operations in their tables WORKER_OPERATIONS.
OPERATIONS: Mapping[str, str] = {
    "probe": "busbw.worker.measure:probe",
    "measure": "busbw.worker.measure:MeasuringWorker.measure",
    "open": "busbw.worker.measure:MeasuringWorker.open_case",
    "sample": "busbw.worker.measure:MeasuringWorker.take_sample",
    "close": "busbw.worker.measure:MeasuringWorker.close_case",
    "release": "busbw.worker.measure:MeasuringWorker.release_memory",
}


def send_reply(replies: TextIO, value: Any) -> None:
    """Write a reply to the stream `replies`: a line of JSON with `value` and its type's name."""
    reply = {"reply": type(value).__name__, "value": wire.to_json(value)}
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def request_value(request: Mapping[str, Any], name: str, value_type: type[T]) -> T:
    """Return the value with the name `name` in a request, parsed from JSON to a `value_type`.

    Raises WireError if the request has no value with this name, or if the value is not a
    `value_type`.
    """
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(value_type, request[name], name)


def serve(requests: TextIO, replies: TextIO, worker_state: Any, launch: LaunchId) -> None:
    """Answer each request with a value or a Failure, until the driver closes the channel.

    The first reply is sent before any request. This reply has the value None, and tells the driver
    that the worker is ready.

    Args:
        requests: the stream of requests from the driver, a line of JSON for each request.
        replies: the stream of replies to the driver.
        worker_state: the state of the worker, which is passed to each operation. The function of
            the worker's service made this state (`SERVICES`, or `WORKER_SERVICES` of an extension).
        launch: the id of the launch, which is stored in each Failure.

    Raises:
        WireError: a request is not JSON, or names no known operation.

    """
    send_reply(replies, None)
    for line in requests:
        request = wire.parse_json(line)
        name = request_value(request, "request", str)
        operation = load_function(OPERATIONS, "WORKER_OPERATIONS", name)
        try:
            reply = operation(worker_state, request)
        except MeasuringError as error:
            reply = error.to_failure(launch)
        send_reply(replies, reply)


def load_function(
    core_functions: Mapping[str, str], extension_table: str, name: str
) -> Callable[..., Any]:
    """Import and return the function that opens a service or that answers a request.

    Args:
        core_functions: maps the names of the core's services or requests to the texts
            ``"module:function"`` of their functions.
        extension_table: the name of the tables in which extensions list such functions, such as
            ``WORKER_OPERATIONS``. These tables are searched if `core_functions` lacks `name`.
        name: the name of the service or of the request, such as ``measure``.

    Raises:
        WireError: neither the core nor an extension has a function with this name.

    """
    functions = (
        [resolve_name(core_functions[name])]
        if name in core_functions
        else extensions.load_declared_functions(name, extension_table)
    )
    if not functions:
        raise wire.WireError(f"request: expected a name of {extension_table}, got {name!r}")
    function: Callable[..., Any] = functions[0]
    return function
