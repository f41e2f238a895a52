"""The loop: a request from the channel, a reply to it, until the driver closes the channel.

One JSON document a line. stdout and stderr are a log and carry no reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

from busbw import wire
from busbw.model import (
    Case,
    EnvironmentKey,
    Failure,
    Injection,
    Plan,
    Run,
    Topology,
    TrainingStep,
)
from busbw.worker import compile, measure
from busbw.worker.backends.base import AbstractBackend
from busbw.worker.backends.compiler import AbstractCompiler

T = TypeVar("T")


@dataclass(frozen=True)
class Channel:
    """The private channel to the driver."""

    requests: TextIO
    replies: TextIO

    def received(self) -> Iterator[dict[str, Any]]:
        """Requests until the driver closes its end. Raises WireError for what is none."""
        try:
            for line in self.requests:
                request = wire.parsed(line)
                if not isinstance(request, dict):
                    raise wire.WireError("request: expected an object")
                yield request
        except UnicodeDecodeError as error:
            raise wire.WireError(f"request: byte {error.start}: not UTF-8") from error

    def send(self, name: str, value: Any) -> None:
        """One reply, out at once."""
        self.replies.write(json.dumps({"reply": name, "value": wire.to_json(value)}) + "\n")
        self.replies.flush()


def serve(channel: Channel, backend: AbstractBackend, *, launch: str) -> None:
    """Answer requests, each with exactly one reply, until there are no more.

    ``measure`` takes a case from beginning to end. ``open``, ``turn`` and ``close`` do the same a
    sample at a time, so that another worker can be measured in turn.
    """
    channel.send("ready", None)
    desk = measure.Desk(backend=backend, launch=launch)
    for request in channel.received():
        channel.send(*_answer(request, backend, desk))


def serve_compiler(channel: Channel, compiler: AbstractCompiler, *, launch: str) -> None:
    """``describe`` a topology's compiler and ``compile`` for it, until there are no more.

    What is compiled is a ``case`` or a training ``step``.
    """
    channel.send("ready", None)
    bench = compile.Bench(compiler=compiler, launch=launch)
    for request in channel.received():
        topology = part(request, "topology", Topology)
        if part(request, "request", str) == "describe":
            channel.send("Compiler", bench.describe(topology))
            continue
        cache = part(request, "cache", str)
        bench.cache = Path(cache) if cache else None
        answer = bench.compile(_to_compile(request), topology)
        channel.send(type(answer).__name__, answer)


def _to_compile(request: dict[str, Any]) -> Case | TrainingStep:
    if "step" in request:
        return part(request, "step", TrainingStep)
    return part(request, "case", Case)


def part(request: dict[str, Any], name: str, kind: type[T]) -> T:
    """The value `name` of a request. Raises WireError where it is missing or no `kind`."""
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(kind, request[name], name)


def _answer(
    request: dict[str, Any], backend: AbstractBackend, desk: measure.Desk
) -> tuple[str, Any]:
    name = part(request, "request", str)
    if name == "probe":
        return "probe", backend.probe()
    if name == "let_go":
        desk.let_go()
        return "gone", None
    if name == "turn":
        return _named(desk.turn() or desk.enough)
    if name == "close":
        return _named(desk.close())
    if name not in ("open", "measure"):
        raise wire.WireError(f"request: there is no {name!r}")
    asked = (
        part(request, "case", Case),
        part(request, "plan", Plan),
        part(request, "key", EnvironmentKey),
        part(request, "injection", Injection) if request.get("injection") else None,
    )
    if name == "open":
        return _named(desk.open(*asked) or desk.enough)
    return _named(desk.measure(*asked))


def _named(answer: Run | Failure | bool) -> tuple[str, Any]:
    """A Run, a Failure, or whether there are enough samples of a case that is open."""
    return ("enough" if isinstance(answer, bool) else type(answer).__name__), answer
