"""The worker that compiles: its cache, and programs that do not fit in memory."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from busbw import wire
from busbw.extensions.compiled import worker, worker_fake
from busbw.extensions.compiled.compilers import parse_topology
from busbw.extensions.compiled.worker import (
    RELEASE_VARIABLE,
    CompiledProgram,
    Compiler,
    LoweredProgram,
    OptimizedProgram,
    Topology,
)
from busbw.extensions.program.worker import compile_error
from busbw.model.case import Case
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind, OutOfMemoryDetection
from busbw.worker.backends.base import MeasuringError
from tests.helpers import build

V5E = parse_topology("v5e:2x4")
H100 = parse_topology("h100:8")
CASE = build.case(ranks=8, framework="fake", strategy="fake", protocol="device/fake")

LAUNCH = LaunchId.parse("1")


class Counting:
    """Counts what is really compiled; may refuse."""

    def __init__(self, refusal: str = "") -> None:
        self.compiled = 0
        self.refusal = refusal
        self.program = ""

    def describe_compiler(self, topology: Topology) -> Compiler:
        return worker_fake.describe_compiler(topology)

    def lower_program_of_case(self, case: Case, topology: Topology) -> LoweredProgram:
        lowered = worker_fake.lower_program_of_case(case, topology)

        def compiled() -> OptimizedProgram:
            self.compiled += 1
            if self.refusal:
                raise compile_error(RuntimeError(self.refusal))
            return lowered.compile()

        return replace(lowered, text=lowered.text + self.program, compile=compiled)


def compiled(
    compiler: object = worker_fake,
    cache: Path | None = None,
    *,
    case: Case = CASE,
    to: Topology = V5E,
) -> CompiledProgram | Failure:
    try:
        request = {"case": wire.to_json(case), "topology": wire.to_json(to)}
        return worker.compile_case(compiler, {**request, "cache": str(cache or "")})
    except MeasuringError as error:
        return error.to_failure(LAUNCH)


def test_a_compiled_program_in_the_cache_is_not_compiled_again(tmp_path: Path) -> None:
    compiler = Counting()
    first = compiled(compiler, tmp_path)
    assert compiled(compiler, tmp_path) == first
    assert isinstance(first, CompiledProgram)
    assert compiler.compiled == 1
    for _ in range(2):
        compiled(compiler)
    assert compiler.compiled == 3


def test_a_program_is_compiled_again_if_its_text_or_flag_or_release_or_topology_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = Counting()
    compiled(compiler, tmp_path)
    compiled(compiler, tmp_path, to=parse_topology("v6e:2x4"))
    compiler.program = "another"
    compiled(compiler, tmp_path)
    monkeypatch.setenv("XLA_FLAGS", "--xla_something=1")
    compiled(compiler, tmp_path)
    monkeypatch.setenv(RELEASE_VARIABLE, "libtpu 2")
    compiled(compiler, tmp_path)
    assert compiler.compiled == 5


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: content[:20],
        lambda content: content[:20] + bytes(255 - byte for byte in content[20:]),
        lambda content: b"",
        lambda content: gzip.compress(b"[" * 200_000),
        lambda content: gzip.compress(b"5"),
        lambda content: gzip.compress(b'{"text": "HloModule"}'),
        lambda content: gzip.compress(b'{"text": "HloModule", "needed_bytes": NaN}'),
    ],
)
def test_a_program_whose_file_in_the_cache_is_damaged_is_compiled_again(
    tmp_path: Path, damaged: Callable[[bytes], bytes]
) -> None:
    compiler = Counting()
    compiled(compiler, tmp_path)
    (stored,) = tmp_path.rglob("*.json.gz")
    stored.write_bytes(damaged(stored.read_bytes()))
    assert isinstance(compiled(compiler, tmp_path), CompiledProgram)
    assert compiler.compiled == 2


def test_a_program_that_needs_more_memory_than_the_chip_has_is_out_of_memory() -> None:
    payload = CASE.payload_bytes
    result = compiled(Counting(), to=replace(H100, memory_bytes=payload - 1))
    assert isinstance(result, Failure)
    assert (result.kind, result.detected) == (
        FailureKind.OUT_OF_MEMORY,
        OutOfMemoryDetection.PREDICTED,
    )
    assert (result.needed_bytes, result.available_bytes) == (payload, payload - 1)
    enough = replace(H100, memory_bytes=payload)
    assert isinstance(compiled(Counting(), to=enough), CompiledProgram)
