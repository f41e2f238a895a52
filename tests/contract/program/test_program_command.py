"""`busbw program`: the collectives of optimized HLO, and how those of two programs differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.command_line import Answer, asked_here
from tests.unit.extensions.program.recorded import dump


def _program(folder: Path, *names: str) -> Answer:
    """Run the command on recorded programs, each written to a file."""
    paths = [folder / f"{name}.txt" for name in names]
    for path, name in zip(paths, names):
        path.write_text(dump(name))
    return asked_here("program", *paths)


def test_the_program_command_lists_every_collective_of_a_program(tmp_path: Path) -> None:
    answer = _program(tmp_path, "fsdp.v6e_2x4")
    assert (answer.code, answer.err) == (0, "")
    rows = [line.split() for line in answer.out.splitlines()[2:]]
    assert [(row[0], *row[-2:]) for row in rows[:-1]] == [
        ("reduce-scatter", "synchronous", "program/steps.py:49"),
        ("all-gather", "synchronous", "program/steps.py:52"),
        ("all-reduce", "synchronous", "program/steps.py:53"),
    ]
    assert "a step: 32.0 MiB of payloads, 28.0 MiB over each rank's link in rings" in answer.out


@pytest.mark.parametrize(
    ("second", "code", "last"),
    [
        (
            "fsdp.v6e_2x4",
            1,
            "all-gather of bfloat16 2M in groups of 8: 4 asynchronous, 4 synchronous -> "
            "synchronous (program/steps.py:52)",
        ),
        ("fsdp.v5e_2x4", 0, "the collectives are the same"),
    ],
)
def test_the_program_command_exits_with_code_1_if_two_programs_differ(
    tmp_path: Path, second: str, code: int, last: str
) -> None:
    answer = _program(tmp_path, "fsdp.v5e_2x4", second)
    assert (answer.code, answer.out.splitlines()[-1]) == (code, last)


def test_the_program_command_names_the_arguments_whose_bytes_changed(tmp_path: Path) -> None:
    paths = [tmp_path / "monday.txt", tmp_path / "tuesday.txt"]
    paths[0].write_text(dump("fsdp.v5e_2x4"))
    grown = dump("fsdp.v6e_2x4").replace("%param.5 = bf16[64,512]", "%param.5 = bf16[512,512]")
    paths[1].write_text(grown)
    collective, *arguments = asked_here("program", *paths).out.splitlines()[-2:]
    assert collective.startswith("all-gather of bfloat16 2M in groups of 8: ")
    assert arguments == ["argument 2, `rows`: 64.0 KiB -> 512.0 KiB"]


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (["README.md"], "README.md: its first line is '# busbw'; expected optimized HLO"),
        (["nothing"], "or a file of optimized HLO; got 'nothing'"),
        (["README.md"] * 3, "expected one program or two, got 3"),
    ],
)
def test_the_program_command_expects_one_or_two_files_of_programs(
    sources: list[str], words: str
) -> None:
    asked_here("program", *sources).refuses(words)
