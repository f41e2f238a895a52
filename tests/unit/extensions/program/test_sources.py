"""The line of the user's own code that an instruction comes from, in both forms of XLA's."""

from __future__ import annotations

import pytest

from busbw.extensions.program.worker_axes import UserSources

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


def test_the_source_line_of_an_instruction_is_the_line_of_its_stack_frame() -> None:
    sources = UserSources(TABLES, source_folder="/home/ann")
    assert sources.user_line_of(_noted(1)) == "run.py:12"
    assert sources.user_line_of(_noted(2)) == "models/train.py:88"


def test_the_source_line_of_an_instruction_in_a_library_is_the_line_of_the_user_code() -> None:
    assert (
        UserSources(TABLES, source_folder="/home/ann").user_line_of(_noted(3))
        == "models/train.py:88"
    )


def test_stack_frames_whose_parents_are_counted_from_0_are_read() -> None:
    tables = TABLES
    for number in (1, 2, 3):
        tables = tables.replace(
            f"{{file_location_id={number} parent_frame_id={number}}}",
            f"{{file_location_id={number} parent_frame_id={number - 1}}}",
        )
    assert (
        UserSources(tables, source_folder="/home/ann").user_line_of(_noted(3))
        == "models/train.py:88"
    )


def test_a_source_file_outside_of_the_root_is_named_with_its_folder_only() -> None:
    assert UserSources(TABLES, source_folder="/srv").user_line_of(_noted(2)) == "models/train.py:88"
    assert UserSources(TABLES).user_line_of(_noted(1)) == "ann/run.py:12"


def test_the_source_line_of_an_instruction_without_stack_frames_is_read_from_its_metadata() -> None:
    line = '%x = f32[] add(), metadata={op_name="a/b" source_file="/w/t.py" source_line=31}'
    assert UserSources("", source_folder="/w").user_line_of(line) == "t.py:31"


@pytest.mark.parametrize(
    "line",
    [
        "%x = f32[] add()",
        _noted(99),
        _noted(10**30),
        '%x = f32[] add(), metadata={source_file="/v/site-packages/tf/ops.py" source_line=1221}',
    ],
    ids=["without metadata", "another frame", "a huge number", "a library's"],
)
def test_an_instruction_has_no_source_line_if_no_line_of_user_code_is_found(line: str) -> None:
    assert UserSources(TABLES).user_line_of(line) == ""


def test_stack_frames_in_a_circle_give_no_source_line() -> None:
    circle = "2 {file_location_id=3 parent_frame_id=4}\n3 {file_location_id=3 parent_frame_id=3}\n"
    tables = TABLES[: TABLES.index("2 {file_location_id=2 parent")] + circle
    assert UserSources(tables).user_line_of(_noted(3)) == ""
