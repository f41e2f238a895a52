"""What a worker answers: requests from its private channel, until the driver closes that.

One JSON document a line; each request has exactly one reply. stdout and stderr are a log and carry
none. A worker measures, compiles or counts, and imports nothing of what the others need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from busbw import wire
from busbw.model.case import Case
from busbw.model.launch import (
    Arrivals,
    Chips,
    Compiled,
    Failure,
    Injection,
    LaunchId,
    Pace,
    Plan,
    Run,
)
from busbw.model.machine import EnvironmentKey, Topology
from busbw.model.soak import Soaked
from busbw.model.words import Device
from busbw.worker import host
from busbw.worker.backends.base import (
    AbstractBackend,
    AbstractCompiler,
)

if TYPE_CHECKING:
    from busbw.worker.measure import MeasureSession

T = TypeVar("T")


@dataclass(frozen=True)
class Channel:
    """The private channel to the driver."""

    requests: TextIO
    replies: TextIO

    def received(self) -> Iterator[dict[str, Any]]:
        """Requests until the driver closes its end. Raises WireError for invalid ones."""
        try:
            for line in self.requests:
                request = wire.parsed(line)
                if not isinstance(request, dict):
                    raise wire.WireError("request: expected an object")
                yield request
        except UnicodeDecodeError as error:
            raise wire.WireError(f"request: byte {error.start}: not UTF-8") from error

    def send(self, name: str, value: Any) -> None:
        self.replies.write(json.dumps({"reply": name, "value": wire.to_json(value)}) + "\n")
        self.replies.flush()


def part(request: dict[str, Any], name: str, kind: type[T]) -> T:
    """The value `name` of a request. Raises WireError where it is missing or no `kind`."""
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(kind, request[name], name)


def serve(channel: Channel, backend: AbstractBackend, *, launch: LaunchId) -> None:
    """Measure: ``probe``, ``measure``, or ``open``, ``turn`` and ``close``, and ``release``.

    ``arrivals`` notes when this process comes to collectives, and when it leaves them.
    ``chips`` measures single chips, and the links between them.
    ``soak`` compares every result of a case for so long.
    ``program`` compiles one of the user's own, of which nothing is measured.
    ``measure`` takes a case from beginning to end. ``open``, ``turn`` and ``close`` do the same a
    sample at a time, so that another worker can be measured in turn.
    """
    from busbw.worker.measure import MeasureSession

    session = MeasureSession(backend=backend, launch=launch)
    _answer(channel, partial(_measured, session))


def _answer(channel: Channel, answered: Callable[[dict[str, Any]], tuple[str, Any]]) -> None:
    channel.send("ready", None)
    for request in channel.received():
        channel.send(*answered(request))


def _measured(session: MeasureSession, request: dict[str, Any]) -> tuple[str, Any]:
    name = part(request, "request", str)
    if name == "probe":
        found = session.backend.probe()
        return "probe", replace(found, least_memory_bytes=host.least_limit_bytes())
    if name == "release":
        session.release()
        return "gone", None
    if name not in ("open", "measure"):
        if name not in _OTHERS:
            raise wire.WireError(f"request: there is no {name!r}")
        return _named(_OTHERS[name](session, request))
    asked = (
        part(request, "case", Case),
        part(request, "plan", Plan),
        part(request, "key", EnvironmentKey),
        part(request, "injection", Injection) if request.get("injection") else None,
        part(request, "pace", Pace) if request.get("pace") else None,
    )
    if name == "open":
        return _named(session.open(*asked) or session.enough)
    return _named(session.measure(*asked))


def _arrivals(session: MeasureSession, request: dict[str, Any]) -> Arrivals | Failure:
    case, key = part(request, "case", Case), part(request, "key", EnvironmentKey)
    return session.arrivals(case, key, part(request, "rounds", int))


def _chips(session: MeasureSession, request: dict[str, Any]) -> Chips | Failure:
    return session.chips(part(request, "rounds", int), part(request, "payload_bytes", int))


def _soak(session: MeasureSession, request: dict[str, Any]) -> Soaked | Failure:
    case, key = part(request, "case", Case), part(request, "key", EnvironmentKey)
    seconds, turned = part(request, "seconds", float), part(request, "turned", int)
    return session.soak(case, part(request, "plan", Plan), key, seconds, turned)


_OTHERS: Mapping[str, Callable[[MeasureSession, dict[str, Any]], Any]] = {
    "turn": lambda session, _: session.turn() or session.enough,
    "close": lambda session, _: session.close(),
    "program": lambda session, request: session.program(part(request, "source", str)),
    "arrivals": _arrivals,
    "chips": _chips,
    "soak": _soak,
}


def _named(
    answer: Run | Soaked | Arrivals | Chips | Failure | Compiled | bool,
) -> tuple[str, Any]:
    return ("enough" if isinstance(answer, bool) else type(answer).__name__), answer


def serve_compiler(channel: Channel, compiler: AbstractCompiler, *, launch: LaunchId) -> None:
    from busbw.worker.compile import CompileSession

    session = CompileSession(compiler=compiler, launch=launch)

    def answered(request: dict[str, Any]) -> tuple[str, Any]:
        topology = part(request, "topology", Topology)
        if part(request, "request", str) == "describe":
            return "Compiler", compiler.describe(topology)
        cache = part(request, "cache", str)
        session.cache = Path(cache) if cache else None
        return _named(session.compile(part(request, "case", Case), topology))

    _answer(channel, answered)


def serve_counters(channel: Channel, device: Device) -> None:
    from busbw.worker import counters

    _answer(channel, lambda _: ("Reading", counters.reading(device)))
