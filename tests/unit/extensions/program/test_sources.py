"""The line of the user's own code that an instruction comes from, in both forms of XLA's."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.extensions.program import worker
from busbw.extensions.program.worker_values import SourceLines

# As jaxlib 0.10 prints it: each parent is one more than it is, the outermost its own.
TABLES = """\
HloModule jit_step, is_scheduled=true

FileNames
1 "/home/ann/run.py"
2 "/home/ann/models/train.py"
3 "/usr/lib/python3.12/site-packages/flax/linen.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}
2 {file_name_id=2 function_name_id=1 line=88 end_line=90 column=4 end_column=9}
3 {file_name_id=3 function_name_id=1 line=7 end_line=7 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}

"""


def _noted(frame: int) -> str:
    return f'%x = f32[] add(), metadata={{op_name="jit(step)/add" stack_frame_id={frame}}}'


FROM_0 = TABLES
for _number in (1, 2, 3):
    FROM_0 = FROM_0.replace(
        f"{{file_location_id={_number} parent_frame_id={_number}}}",
        f"{{file_location_id={_number} parent_frame_id={_number - 1}}}",
    )
CIRCLE = TABLES[: TABLES.index("2 {file_location_id=2 parent")] + (
    "2 {file_location_id=3 parent_frame_id=4}\n3 {file_location_id=3 parent_frame_id=3}\n"
)
OWN = '%x = f32[] add(), metadata={op_name="a/b" source_file="/w/t.py" source_line=31}'
LIBRARY = '%x = f32[] add(), metadata={source_file="/v/site-packages/tf/ops.py" source_line=1221}'


RELATIVE = TABLES.replace('"/home/ann/', '"')


@pytest.mark.parametrize(
    ("tables", "line", "source"),
    [
        (RELATIVE, _noted(1), "run.py:12"),
        (RELATIVE, _noted(2), "models/train.py:88"),
        # Of a library: the user's line that called it.
        (RELATIVE, _noted(3), "models/train.py:88"),
        (FROM_0, _noted(3), "models/train.py:88"),
        (TABLES, _noted(2), "models/train.py:88"),
        (TABLES, _noted(1), "ann/run.py:12"),
        ("", OWN, "w/t.py:31"),
        ("", OWN.replace("/w/", "/"), "/t.py:31"),
        (TABLES, "%x = f32[] add()", ""),
        (TABLES, _noted(99), ""),
        (TABLES, _noted(10**30), ""),
        (TABLES, LIBRARY, ""),
        (CIRCLE, _noted(3), ""),
    ],
)
def test_the_source_line_of_an_instruction_is_the_line_of_the_user_code_if_there_is_one(
    tables: str, line: str, source: str
) -> None:
    assert SourceLines(tables).user_line_of(line) == source


def test_the_source_line_of_a_collective_is_relative_to_the_folder_in_which_a_worker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = f'source_file="{tmp_path}/models/layers/dense.py" source_line=31'
    text = f"ENTRY %m (p: f32[]) -> f32[] {{\n  %x = f32[] all-reduce(%p), {place}\n}}\n"
    assert worker.parse_collectives(text, {"data": 8}).uses[0].source == "models/layers/dense.py:31"
