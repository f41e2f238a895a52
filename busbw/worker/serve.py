"""What a worker answers: requests from its private channel, until the driver closes that.

One JSON document a line; each request has exactly one reply. stdout and stderr are a log and carry
none. A worker measures, compiles or trains, and imports nothing of what the others need.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from busbw import wire, workloads
from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Plan, Run
from busbw.model.machine import EnvironmentKey, Topology
from busbw.model.training import TrainingRequest
from busbw.worker import host
from busbw.worker.backends.base import (
    AbstractBackend,
    AbstractCompiler,
    AbstractTrainer,
    MeasuringError,
)

if TYPE_CHECKING:
    from busbw.worker.measure import MeasureSession

T = TypeVar("T")

# A case is read by the workload that it names, which must have been imported.
_READABLE = workloads.WORKLOADS


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

    ``measure`` takes a case from beginning to end. ``open``, ``turn`` and ``close`` do the same a
    sample at a time, so that another worker can be measured in turn.
    """
    from busbw.worker.measure import MeasureSession

    channel.send("ready", None)
    session = MeasureSession(backend=backend, launch=launch)
    for request in channel.received():
        channel.send(*_measured(request, session))


def _measured(request: dict[str, Any], session: MeasureSession) -> tuple[str, Any]:
    name = part(request, "request", str)
    if name == "probe":
        found = session.backend.probe()
        return "probe", replace(found, least_memory_bytes=host.least_limit_bytes())
    if name == "release":
        session.release()
        return "gone", None
    if name == "turn":
        return _named(session.turn() or session.enough)
    if name == "close":
        return _named(session.close())
    if name not in ("open", "measure"):
        raise wire.WireError(f"request: there is no {name!r}")
    asked = (
        part(request, "case", Case),
        part(request, "plan", Plan),
        part(request, "key", EnvironmentKey),
        part(request, "injection", Injection) if request.get("injection") else None,
    )
    if name == "open":
        return _named(session.open(*asked) or session.enough)
    return _named(session.measure(*asked))


def _named(answer: Run | Failure | bool) -> tuple[str, Any]:
    return ("enough" if isinstance(answer, bool) else type(answer).__name__), answer


def serve_compiler(channel: Channel, compiler: AbstractCompiler, *, launch: LaunchId) -> None:
    from busbw.worker.compile import CompileSession

    channel.send("ready", None)
    session = CompileSession(compiler=compiler, launch=launch)
    for request in channel.received():
        topology = part(request, "topology", Topology)
        if part(request, "request", str) == "describe":
            channel.send("Compiler", compiler.describe(topology))
            continue
        cache = part(request, "cache", str)
        session.cache = Path(cache) if cache else None
        answer = session.compile(part(request, "case", Case), topology)
        channel.send(type(answer).__name__, answer)


def serve_trainer(channel: Channel, trainer: AbstractTrainer, *, launch: LaunchId) -> None:
    channel.send("ready", None)
    for request in channel.received():
        try:
            channel.send(*_trained(request, trainer))
        except MeasuringError as error:
            channel.send("Failure", error.failure(launch))


def _trained(request: dict[str, Any], trainer: AbstractTrainer) -> tuple[str, Any]:
    if part(request, "request", str) == "offer":
        trainer.offer()
        return "offered", None
    return "TrainingAnswer", trainer.train(part(request, "training", TrainingRequest))
