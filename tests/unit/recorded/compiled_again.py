"""A recorded session that compiled, judged again. No test lives here."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.extensions.compiled.judge import CompileJob, CompilingSession, judge_programs
from busbw.extensions.compiled.results import read_stored_program, results_json
from busbw.extensions.compiled.worker import CompiledProgram, Compiler, CompileSpec
from busbw.model.case import Case, CaseSpec, dataclass_from
from busbw.model.launch import Failure
from busbw.model.machine import EnvironmentKey
from tests.helpers.recorded_sessions import Recorded
from tests.unit.recorded import replayed

# When the compilers were recorded, of which one's result has the date for the next one's.
COMPILED = datetime(2026, 11, 22, tzinfo=UTC)


def compiled(recorded: Recorded, root: Path) -> dict[str, Any]:
    inputs = recorded.inputs
    specs = tuple(
        dataclass_from(
            CompileSpec,
            wire.from_json(CaseSpec, row["spec"]),
            topology=row["topology"],
            compiler=row["compiler"],
        )
        for row in inputs["compile_specs"]
    )
    compilers = replayed.read_all(Compiler, inputs["compilers"])
    labels = list(dict.fromkeys(spec.compiler for spec in specs))
    for_each_label = len(compilers) // len(labels) if labels else 0
    described = {
        (labels[place // for_each_label], compiler.topology): compiler
        for place, compiler in enumerate(compilers)
    }
    extra = {"accept_compiled_changes": True} if inputs["settings"]["accept_changes"] else {}
    jobs: dict[CompileSpec, CompileJob] = {}
    results: dict[CompileSpec, CompiledProgram | Failure] = {}
    for place, (key, case, kind, answer) in zip(
        inputs["results_of"], inputs["results"], strict=True
    ):
        spec = specs[place]
        job = CompileJob(case=wire.from_json(Case, case), key=wire.from_json(EnvironmentKey, key))
        jobs[spec] = replace(job, baseline=read_stored_program(root, job.key, job.case))
        kinds: dict[str, Any] = {"Compiled": CompiledProgram, "Failure": Failure}
        results[spec] = wire.from_json(kinds[kind], answer)
    programs = CompilingSession(
        options=replayed.options_of(inputs, baselines=root, extra=extra),
        began=COMPILED,
        specs=specs,
        compilers=described,
        jobs=jobs,
    )
    document: dict[str, Any] = json.loads(
        results_json(replayed.with_skip_option(judge_programs(programs, results), inputs["skip"]))
    )
    return document
