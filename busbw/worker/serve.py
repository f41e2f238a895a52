"""A worker that measures: requests from its channel, until the driver closes that."""

from __future__ import annotations

from typing import Any

from busbw import wire
from busbw.model import Case, EnvironmentKey, Failure, Injection, LaunchId, Plan, Run
from busbw.worker import measure
from busbw.worker.backends.base import AbstractBackend
from busbw.worker.channel import Channel, part


def serve(channel: Channel, backend: AbstractBackend, *, launch: LaunchId) -> None:
    """Answer requests, each with exactly one reply, until there are no more.

    ``measure`` takes a case from beginning to end. ``open``, ``turn`` and ``close`` do the same a
    sample at a time, so that another worker can be measured in turn.
    """
    channel.send("ready", None)
    session = measure.MeasureSession(backend=backend, launch=launch)
    for request in channel.received():
        channel.send(*_answer(request, backend, session))


def _answer(
    request: dict[str, Any], backend: AbstractBackend, session: measure.MeasureSession
) -> tuple[str, Any]:
    name = part(request, "request", str)
    if name == "probe":
        return "probe", backend.probe()
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
    """A Run, a Failure, or whether there are enough samples of a case that is open."""
    return ("enough" if isinstance(answer, bool) else type(answer).__name__), answer
