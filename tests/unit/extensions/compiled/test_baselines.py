"""Baselines of compiled programs: found again, and invalid files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines.document import BaselineError
from busbw.extensions.compiled import results
from busbw.extensions.compiled.worker import CompiledBaseline, CompiledProgram
from busbw.model.case import Case
from busbw.report.session import ChangeRow
from tests.helpers import build
from tests.helpers import compiled as made

CHIPS = build.key(device_kind="TPU v5 lite", ranks=8, mesh="2x4", cores=None)
PROGRAM = build.case(ranks=8, mesh="2x4")
SECOND = build.case(ranks=8, mesh="2x4", payload_bytes=2048)


def compiled(
    root: Path,
    program: CompiledProgram | None,
    *,
    date: str = "2026-11-20",
    case: Case = PROGRAM,
    **changes: Any,
) -> list[ChangeRow]:
    """Save the compiled program of `case`; None means out of memory."""
    new = CompiledBaseline(case=case, compiled=program, date=date, release="libtpu 1", **changes)
    return results.save_programs(root, [(CHIPS, new)])


def test_saving_a_compiled_program_leaves_programs_of_other_payloads_unchanged(
    tmp_path: Path,
) -> None:
    compiled(tmp_path, made.compiled(), case=SECOND)
    compiled(tmp_path, made.compiled(), date="2026-11-20")
    (change,) = compiled(tmp_path, made.compiled(algorithm={}), date="2026-11-21")
    assert change[2:4] == ("colors 2, strategy Ring", "not published")
    other = results.read_stored_program(tmp_path, CHIPS, SECOND)
    assert other is not None and other.date == "2026-11-20"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "'busbw compiled baselines' of version 2; expected "),
        (lambda d: d.update(strategy="other"), "the file says"),
        (lambda d: d["environment"].update(ranks=4), "the file says"),
        (lambda d: d["entries"][0].update(payload="2048"), "entries[0].payload: expected 2K"),
        (lambda d: d["entries"][0].pop("release"), "entries[0].release: missing"),
        (lambda d: d["entries"].append(d["entries"][0]), "a second entry"),
        (lambda d: d["entries"][0]["compiled"].update(peak_bytes="many"), "peak_bytes"),
        (lambda d: d.update(more=1), "document.more: unknown key"),
        (lambda d: d["entries"][0].update(protocol="junk/fake"), "entries[0].protocol: expected a"),
        (lambda d: d["entries"][0].update(date="soon"), "entries[0].date: expected a date"),
        (lambda d: d["entries"][0]["compiled"].update(peak_bytes=-1), "compiled.peak_bytes: exp"),
        (
            lambda d: d["entries"][0]["compiled"]["collectives"].update(a=-1),
            "compiled.collectives.a: expected 0 or more, got -1",
        ),
    ],
)
def test_a_damaged_file_of_compiled_baselines_is_an_error_that_names_the_place(
    tmp_path: Path, change: Any, message: str
) -> None:
    compiled(tmp_path, made.compiled(), date="2026-11-20")
    (path,) = tmp_path.glob("compiled/*/*/*.json")
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(BaselineError) as error:
        results.read_stored_program(tmp_path, CHIPS, PROGRAM)
    assert message in str(error.value)
    with pytest.raises(BaselineError):
        compiled(tmp_path, made.compiled(algorithm={}), date="2026-11-21")
    assert json.loads(path.read_text()) == document
