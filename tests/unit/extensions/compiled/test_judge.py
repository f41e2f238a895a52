"""The verdicts on compiled programs."""

from __future__ import annotations

from busbw.extensions.compiled.judge import judge_compiled_case
from busbw.extensions.compiled.worker import CompiledBaseline, CompiledProgram, CompiledVerdict
from busbw.model.launch import Failure
from busbw.model.words import MIB, Outcome
from tests.helpers import build
from tests.helpers import compiled as made

SPEC = made.spec()
BEFORE = made.baseline(made.compiled())


def judged(
    compiled: CompiledProgram | Failure, before: CompiledBaseline | None = BEFORE
) -> CompiledVerdict:
    return judge_compiled_case(SPEC, build.case(), compiled, before, release="new")


def test_a_compiled_program_fails_only_if_its_memory_grows_by_more_than_a_mebibyte() -> None:
    for compiled in (made.compiled(temporary_bytes=MIB), made.compiled(peak_bytes=1)):
        assert judged(compiled).outcome is Outcome.PASS
    assert judged(made.compiled(temporary_bytes=MIB + 1)).failed


def test_a_compiled_program_passes_if_neither_baseline_nor_program_has_an_algorithm() -> None:
    before = made.baseline(made.compiled(algorithm={}))
    result = judged(made.compiled(algorithm={}), before)
    assert result.outcome is Outcome.PASS
    assert result.text.endswith("not published")


def test_a_compiled_program_of_another_protocol_than_its_baseline_is_incomparable() -> None:
    before = made.baseline(made.compiled(), case=build.case(protocol="device/chain1"))
    assert judged(made.compiled(), before).outcome is Outcome.INCOMPARABLE
