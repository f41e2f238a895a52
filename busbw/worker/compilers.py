"""A worker that compiles: requests from its channel, until the driver closes that."""

from __future__ import annotations

from pathlib import Path

from busbw.model import Case, LaunchId, Topology
from busbw.worker import compile
from busbw.worker.backends.base import AbstractCompiler
from busbw.worker.channel import Channel, part


def serve_compiler(channel: Channel, compiler: AbstractCompiler, *, launch: LaunchId) -> None:
    """``describe`` a topology's compiler and ``compile`` a case for it, until there are no more."""
    channel.send("ready", None)
    session = compile.CompileSession(compiler=compiler, launch=launch)
    for request in channel.received():
        topology = part(request, "topology", Topology)
        if part(request, "request", str) == "describe":
            channel.send("Compiler", session.describe(topology))
            continue
        cache = part(request, "cache", str)
        session.cache = Path(cache) if cache else None
        answer = session.compile(part(request, "case", Case), topology)
        channel.send(type(answer).__name__, answer)
