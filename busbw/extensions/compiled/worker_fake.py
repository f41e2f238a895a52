"""A compiler without a framework, scripted by the environment variable BUSBW_FAKE_COMPILER.

Shipped for tests and demonstrations: its text is read and proved like any other, only the
compiling is simulated. The variable holds JSON::

    {"release": "fake 1", "missing": {"gpu": "no such compiler", "fake 0": "too old"},
     "cases": [{"topology": "v5e:2x4", "payload_bytes": 1048576, "strategy": "Ring",
                "temporary_bytes": 4096, "then": "kill"},
               {"program": "train.py:step", "hlo": "step.txt", "mesh": {"data": 8}}]}

A line holds for the topologies and payloads that it names, and for all where it names none. Later
lines win. `then` is what happens to it: kill, exit, hang, error, out_of_memory, or
``lose_collective``, a program without one. A `program` of the user's is what the file `hlo` holds,
its axes those of `mesh`.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.machine import DeviceSet
from busbw.model.words import Clock, Device
from busbw.worker import process
from busbw.worker.backends.fake.backend import cause_event

from .worker_programs import CompileError, Lowered, Optimized
from .worker_values import RELEASE, Compiler, Topology

VARIABLE = "BUSBW_FAKE_COMPILER"
_LOST = "lose_collective"
_REFUSED = {
    "error": "INTERNAL: made up: this compiler refuses the program",
    "out_of_memory": "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for "
    "HLO temporaries (16.00G) exceeds available HBM (15.75G)",
}


def describe(topology: Topology) -> Compiler:
    """Return the compiler of the script, which is one for every topology."""
    script = _script()
    release = os.environ.get(RELEASE) or script.get("release", "fake 1")
    absent = script.get("missing", {})
    missing = absent.get(topology.device.value) or absent.get(release)
    if missing:
        return Compiler(topology=topology.name, missing=missing)
    return Compiler(
        topology=topology.name,
        release=release,
        build=f"build of {release}",
        versions={"fake": release.split()[-1]},
        flags=process.recorded_variables(),
        devices=DeviceSet(
            device=topology.device,
            device_kind=topology.device_kind,
            ranks=topology.ranks,
            any_ranks=False,
            program="fake",
            strategies={"default": "fake", "fake": "fake"},
            clocks=(Clock.DEVICE, Clock.HOST),
            mesh=topology.layout.partition(":")[2] if topology.device is Device.TPU else "",
            hosts=topology.hosts,
            processes=topology.hosts,
        ),
    )


def lowered(case: Case, topology: Topology) -> Lowered:
    """Return the program that the script says."""
    program = case.program
    line = _line(0 if program else case.payload_bytes, topology, program)
    text, mesh = json.dumps([repr(case), line]), dict(line.get("mesh", {})) if program else None
    return Lowered(text, 1, partial(_optimized, case, line), mesh)


def _script() -> dict[str, Any]:
    script: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
    return script


def _line(payload_bytes: int, topology: Topology, program: str) -> dict[str, Any]:
    request = {
        "topology": topology.name,
        "payload_bytes": payload_bytes,
        "release": describe(topology).release,
        "program": program,
    }
    line: dict[str, Any] = {}
    for case in _script().get("cases", ()):
        if all(case.get(name, value) == value for name, value in request.items()):
            line |= case
    return line


def _optimized(case: Case, line: dict[str, Any]) -> Optimized:
    """Make what a compiler would: a chain of one collective a turn."""
    event = line.get("then", "")
    if event in _REFUSED:
        raise CompileError(_REFUSED[event])
    if event != _LOST:
        cause_event(event)
    payload, temporary = case.payload_bytes, int(line.get("temporary_bytes", 0))
    return Optimized(
        text=Path(line["hlo"]).read_text() if "hlo" in line else _text(case, line),
        argument_bytes=payload,
        output_bytes=payload,
        alias_bytes=payload,
        temporary_bytes=temporary,
        peak_bytes=payload + temporary,
    )


def _text(case: Case, line: dict[str, Any]) -> str:
    shape = f"f32[{case.payload_bytes // 4}]{{0}}"
    chosen = {"strategy": line.get("strategy", "FakeRing"), "debug": "colors:2 phases:1"}
    config = json.dumps({"collective_algorithm_config": chosen})
    collective = f"{_collective(case)}, backend_config={config}"
    kept = [] if line.get("then") == _LOST else ["  " + collective]
    program = _unlooped if case.clock is Clock.DISPATCH else _looped
    return "\n".join(["HloModule fake", "", *program(shape, kept)])


def _collective(case: Case) -> str:
    collective = COLLECTIVES[case.collective]
    size = collective.output_bytes(case.payload_bytes, case.group_size)
    positions = collective.pairs(case.group_size)
    pairs = [(group[a], group[b]) for group in case.rank_groups for a, b in positions]
    field = "source_target_pairs" if pairs else "replica_groups"
    ranks = ",".join(
        "{" + ",".join(map(str, ranks_of_group)) + "}"
        for ranks_of_group in pairs or case.rank_groups
    )
    added = ", to_apply=%add" if collective.reduce_ops else ""
    return (
        f"%{collective.hlo}.1 = f32[{size // 4}]{{0}} {collective.hlo}(%own), channel_id=1, "
        f"{field}={{{ranks}}}{added}"
    )


def _looped(shape: str, collective: list[str]) -> list[str]:
    return [
        f"%body (held: (s32[], {shape})) -> (s32[], {shape}) {{",
        f"  %held = (s32[], {shape}) parameter(0)",
        f"  %own = {shape} get-tuple-element(%held), index=1",
        *collective,
        "}",
        "",
        f"ENTRY %main (own: {shape}) -> (s32[], {shape}) {{",
        f"  %own.1 = {shape} parameter(0)",
        f"  ROOT %while.1 = (s32[], {shape}) while(%own.1), condition=%more, body=%body",
        "}",
    ]


def _unlooped(shape: str, collective: list[str]) -> list[str]:
    return [
        f"ENTRY %main (own: {shape}) -> {shape} {{",
        f"  %own = {shape} parameter(0)",
        *collective,
        "}",
    ]
