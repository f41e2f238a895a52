"""A worker that compiles: requests from its channel, until the driver closes that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from busbw.model import Case, LaunchId, Topology, TrainingStep
from busbw.worker import compile
from busbw.worker.backends.compiler import AbstractCompiler
from busbw.worker.channel import Channel, part


def serve_compiler(channel: Channel, compiler: AbstractCompiler, *, launch: LaunchId) -> None:
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
