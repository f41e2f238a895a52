"""A simulated compiler, scripted by the environment variable BUSBW_FAKE_COMPILER.

The simulated compiler is shipped for tests and demonstrations. Only compiling is simulated: the
text of the program is read and proved as usual. The variable holds JSON::

    {"missing": {"gpu": "no such compiler", "libtpu 1.0": "too old"},
     "cases": [{"topology": "v5e:2x4", "payload_bytes": 1048576, "strategy": "Ring",
                "temporary_bytes": 4096, "then": "kill"},
               {"program": "train.py:step", "hlo": "step.txt", "mesh": {"data": 8}}]}

The script is the value of the variable. `missing` maps a class of devices, or a release, to the
reason why it has no compiler. An entry of `cases` applies to the cases with the topology, payload
and program that the entry names. An entry without a topology, for example, applies to all
topologies. If several entries apply to a case, the values of later entries replace those of earlier
entries. `then` is the event that compiling the case causes: kill, exit, hang, error or
out_of_memory. If ``loses_collective`` is true, the program lacks the collective. The optimized HLO
of a user's `program` is in the file `hlo`, and `mesh` maps the axis names of the program's mesh to
their extents.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from busbw.collectives import COLLECTIVES
from busbw.extensions.program.worker import compile_error
from busbw.model.case import Case
from busbw.model.machine import DeviceSet
from busbw.model.words import Clock, DeviceClass
from busbw.worker.backends.base import recorded_variables, unavailable
from busbw.worker.backends.fake import cause_fault

from .worker import RELEASE_VARIABLE, Compiler, LoweredProgram, OptimizedProgram, Topology

SCRIPT_VARIABLE = "BUSBW_FAKE_COMPILER"
_REFUSAL_MESSAGES = {
    "error": "INTERNAL: made up: this compiler refuses the program",
    "out_of_memory": "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for "
    "HLO temporaries (16.00G) exceeds available HBM (15.75G)",
}


def describe_compiler(topology: Topology) -> Compiler:
    """Return the description of the simulated compiler for `topology`.

    Raises MeasuringError with the kind UNAVAILABLE if the compiler is missing by the script.
    """
    release = os.environ.get(RELEASE_VARIABLE, "fake 1")
    reasons = _read_script().get("missing", {})
    reason = reasons.get(topology.device.value) or reasons.get(release)
    if reason:
        raise unavailable(reason)
    return Compiler(
        topology=topology.name,
        release=release,
        build=f"build of {release}",
        versions={"fake": release.split()[-1]},
        flags=recorded_variables(),
        devices=DeviceSet(
            device=topology.device,
            device_kind=topology.device_kind,
            ranks=topology.ranks,
            any_ranks=False,
            program="fake",
            strategies={"default": "fake", "fake": "fake"},
            clocks=(Clock.DEVICE, Clock.HOST),
            mesh=topology.name.partition(":")[2] if topology.device is DeviceClass.TPU else "",
            hosts=topology.hosts,
            processes=topology.hosts,
        ),
    )


def lower_program_of_case(case: Case, topology: Topology) -> LoweredProgram:
    """Return the simulated program of a case for `topology`, before it is compiled.

    The text of the program only identifies the program. The script decides the result of compiling.
    """
    script = _script_of_case(case, topology)
    mesh = dict(script.get("mesh", {})) if case.program else None
    return LoweredProgram(
        json.dumps([repr(case), script]), 1, partial(_compile, case, script), mesh
    )


def _read_script() -> dict[str, Any]:
    """Return the script of the simulated compiler; empty if BUSBW_FAKE_COMPILER is not set."""
    return dict(json.loads(os.environ.get(SCRIPT_VARIABLE, "{}")))


def _script_of_case(case: Case, topology: Topology) -> dict[str, Any]:
    """Return the entries of the script that apply to a case, merged into a single entry.

    Values of later entries replace values of earlier entries.
    """
    request = {
        "topology": topology.name,
        "payload_bytes": 0 if case.program else case.payload_bytes,
        "release": describe_compiler(topology).release,
        "program": case.program,
    }
    script: dict[str, Any] = {}
    for entry in _read_script().get("cases", ()):
        if all(entry.get(name, value) == value for name, value in request.items()):
            script |= entry
    return script


def _compile(case: Case, script: dict[str, Any]) -> OptimizedProgram:
    """Return the simulated output of a compiler: a loop with a single collective in each turn.

    `script` is the merged script entry of the case. If it names a file `hlo`, the output is the
    text of this file instead. Raises MeasuringError if the compiler refuses the program by the
    script.
    """
    event = script.get("then", "")
    if event in _REFUSAL_MESSAGES:
        raise compile_error(RuntimeError(_REFUSAL_MESSAGES[event]))
    cause_fault(event)
    payload = case.payload_bytes
    temporary = int(script.get("temporary_bytes", 0))
    return OptimizedProgram(
        text=Path(script["hlo"]).read_text() if "hlo" in script else _hlo_text(case, script),
        needed_bytes=payload + temporary,
        temporary_bytes=temporary,
        peak_bytes=payload + temporary,
    )


def _hlo_text(case: Case, script: dict[str, Any]) -> str:
    """Return made-up optimized HLO with a loop that runs the collective of the case.

    `script` is the merged script entry of the case. The value `strategy` is the algorithm that the
    simulated compiler publishes. If its value ``loses_collective`` is true, the loop lacks the
    collective.
    """
    collective = COLLECTIVES[case.collective]
    payload = f"f32[{case.payload_bytes // 4}]{{0}}"
    size = collective.output_bytes(case.payload_bytes, case.group_size)
    chosen = {"strategy": script.get("strategy", "FakeRing"), "debug": "colors:2 phases:1"}
    pairs = [
        (group[source], group[target])
        for group in case.rank_groups
        for source, target in collective.source_target_pairs(case.group_size)
    ]
    groups = json.dumps(pairs or case.rank_groups).translate(str.maketrans("[]", "{}", " "))
    line = (
        f"%{collective.hlo_name}.1 = f32[{size // 4}]{{0}} {collective.hlo_name}(%own), "
        f"channel_id=1, {'source_target_pairs' if pairs else 'replica_groups'}={groups}, "
        f"to_apply=%add, backend_config={json.dumps({'collective_algorithm_config': chosen})}"
    )
    return f"""HloModule fake

%body (held: (s32[], {payload})) -> (s32[], {payload}) {{
  %held = (s32[], {payload}) parameter(0)
  %own = {payload} get-tuple-element(%held), index=1
  {"" if script.get("loses_collective") else line}
}}

ENTRY %main (own: {payload}) -> (s32[], {payload}) {{
  %own.1 = {payload} parameter(0)
  ROOT %while.1 = (s32[], {payload}) while(%own.1), condition=%more, body=%body
}}
"""
