"""`busbw history`: tables of the sessions in a history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.command_line import asked_here
from tests.helpers.history_lines import documents, write

TPU, GPU = "tpu-v5-lite/4r", "nvidia-h200/8r"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a history of three sessions of two cases on one machine."""
    for number in range(3):
        write(tmp_path, TPU, documents(f"{number:016x}"))
    return tmp_path


def test_the_history_command_prints_a_line_for_the_machine_and_a_row_for_each_case(
    root: Path,
) -> None:
    answer = asked_here("history", root)
    assert (answer.code, answer.err) == (0, "")
    head, titles, first, second, *_ = answer.out.splitlines()
    assert head == "tpu-v5-lite/4r: 3 sessions (3 PASS)"
    assert titles.split() == [
        *("case", "sessions", "level", "spread", "newest", "ratio", "NOISY", "baseline")
    ]
    row = "jax.all_reduce.psum.float32.1K 3 11.38 us - 11.38 us 1.000 0 2026-01-02"
    assert first.split() == row.split()
    assert second.split()[0] == "jax.all_reduce.psum.float32.2K"


def test_the_history_command_names_the_protocols_of_cases_that_differ_only_in_protocol(
    tmp_path: Path,
) -> None:
    (line,) = documents("f" * 16, cases=1)
    other = {**line, "case": {**line["case"], "protocol": "host/chain2/malloc"}}
    write(tmp_path, TPU, [line, other])
    assert "float32.1K (host/chain2/malloc)" in asked_here("history", tmp_path).out


def test_the_history_command_prints_all_machines_or_only_the_machine_that_an_option_names(
    root: Path,
) -> None:
    write(root, GPU, documents("e" * 16))
    assert "nvidia-h200/8r: 1 session (" in asked_here("history", root).out
    assert "nvidia" not in asked_here("history", root, f"--machine={TPU}").out


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("missing", "busbw history: there is no folder missing\n"), (".", "has no sessions")],
)
def test_the_history_command_refuses_a_folder_without_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    asked_here("history", folder).refuses(reason)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("end", ["}\n", ""])
def test_the_history_command_names_the_file_and_the_number_of_a_damaged_line(
    root: Path, end: str
) -> None:
    (path,) = root.rglob("*.jsonl")
    path.write_text(path.read_text() + '{"version": 1' + end)
    asked_here("history", root).refuses(f"{path}: line 7")


CHANGE = "+10 % since 2026-03-07 (6 sessions); changed there: jax 0.10.0 -> 0.10.1"


@pytest.fixture
def history_with_change(tmp_path: Path) -> Path:
    """Return a history of 12 sessions in which 4K takes a tenth longer from the seventh on."""
    for number in range(12):
        lines = documents(
            f"{number:016x}",
            cases=8,
            moment=f"2026-03-{1 + number:02d}T03:00:00Z",
            versions={"jax": "0.10.0" if number < 6 else "0.10.1"},
        )
        factor = 1.0 if number < 6 else 1.1
        lines[2]["times_us"] = [factor * time_us for time_us in lines[2]["times_us"]]
        write(tmp_path, TPU, lines)
    return tmp_path


def test_the_history_command_prints_changed_levels_and_changed_versions_below_their_case(
    history_with_change: Path,
) -> None:
    lines = asked_here("history", history_with_change).out.splitlines()
    row = next(number for number, text in enumerate(lines) if ".float32.4K " in text)
    assert lines[row + 1].strip() == CHANGE
    assert sum("changed there" in text for text in lines) == 1


def test_the_history_command_prints_the_reason_of_an_acknowledged_change_of_a_level(
    history_with_change: Path,
) -> None:
    reviewed = history_with_change / "reviewed"
    reviewed.mkdir()
    file = reviewed / "acknowledged.toml"
    file.write_text('[[change]]\nsince = 2026-03-07\ncase = "*.4K"\nreason = "see #7"\n')
    answer = asked_here("history", history_with_change, f"--baselines={reviewed}")
    assert f"{CHANGE}; accepted: see #7" in answer.out
    file.write_text("[[change]]\n")
    answer = asked_here("history", history_with_change, f"--baselines={reviewed}")
    answer.refuses(f"{file}: file.change[0].since: missing")


def test_the_history_command_prints_separate_tables_for_each_of_two_interleaved_stacks(
    tmp_path: Path,
) -> None:
    stack = "0123456789abcdef"
    interleaved = documents("1" * 16, paired=True, stack=stack)
    reference = documents(
        "1" * 16, paired=True, stack=stack, outcome="NO_BASELINE", is_reference=True
    )
    write(tmp_path, TPU, [*interleaved, *reference])
    lines = asked_here("history", tmp_path).out.splitlines()
    assert lines[0].startswith("tpu-v5-lite/4r: 1 session (1 PASS)")
    assert lines[2].startswith("jax ") and stack in lines[2]
    assert lines[7].startswith("the reference ") and stack in lines[7]
