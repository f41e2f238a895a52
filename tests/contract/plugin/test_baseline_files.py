"""Baseline files in sessions: invalid files, two writers, killed writers, published figures."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

NONSENSE = {
    "no JSON": ("{", "not JSON"),
    "a time that is a word": ('Z": [', 'Z": ["soon", '),
    "a time below 0": ('Z": [', 'Z": [-1, '),
    "an unknown key": ('"times_us"', '"time_us"'),
    "another payload": ('"payload": "1M"', '"payload": "1048576"'),
    "another version": ('"version": 1', '"version": 7'),
    "an earlier busbw": ('"document": "busbw baselines",\n  "version": 1', '"schema": 3'),
    "another place": ('"ranks": 4', '"ranks": 5'),
    "times and none": ('"times_us"', '"out_of_memory": "x", "times_us"'),
    "an unknown clock": ('"protocol": "host/fake"', '"protocol": "junk/fake"'),
    "a pin's date that is none": ('"pinned_date": "', '"pinned_date": "on '),
    "a moment that is none": ('"sessions": {\n    "', '"sessions": {\n    "on '),
    "a session that is not there": ('"times_us": {"', '"times_us": {"on '),
    "a date in the history": ('"history": [\n    {"date": "', '"history": [\n    {"date": "on '),
    "a time beyond all numbers": ('Z": [', 'Z": [1e400, '),
    "a time that overflows": ('Z": [', 'Z": [1.7e308, '),
    "true for a number": ('"pinned_us": ', '"memory_limit_bytes": true, "pinned_us": '),
    "NaN": ('Z": [', 'Z": [NaN, '),
    "half a character": ('"payload": "1M"', '"payload": "1M", "dtype": "\\ud800"'),
    "axes without a mesh": ('"payload": "1M"', '"payload": "1M", "axes": "x"'),
    "5000 digits": ('"version": 1', '"version": 1' + "0" * 5000),
}
WHERE = {
    "no JSON": ": 2:3: not JSON",
    "a time that is a word": "Z[0]: expected a number, got 'soon'",
    "a time below 0": "Z[0]: expected 1e-06 to 1e+12 microseconds, got -1",
    "an unknown key": "document.entries[0].time_us: unknown key; accepted are",
    "another payload": "document.entries[0].payload: expected 1M, got '1048576'",
    "another version": "this says 'busbw baselines' of version 7; expected 'busbw baselines' ",
    "an earlier busbw": "this says None of version None; expected 'busbw baselines' ",
    "another place": "document.environment: the file says",
    "times and none": "document.entries[0].times_us: expected times, or the session",
    "an unknown clock": "document.entries[0].protocol: expected a clock first, one of host, ",
    "a moment that is none": ": expected a moment such as 2026-01-31T03:00:00Z, got 'on 20",
    "a session that is not there": "document.entries[0]: the session 'on 20",
    "a pin's date that is none": "document.entries[0].pinned_date: expected a date such as",
    "a date in the history": "document.history[0].date: expected a date such as",
    "a time beyond all numbers": "Z[0]: expected a finite number, got inf",
    "a time that overflows": "Z[0]: expected 1e-06 to 1e+12 microseconds, got 1.7e+308",
    "true for a number": "document.entries[0].memory_limit_bytes: expected a whole number",
    "NaN": "Z[0]: expected a finite number, got nan",
    "half a character": "document.entries[0].dtype: expected text, got '\\ud800'",
    "axes without a mesh": "document.entries[0].axes: expected none without a mesh",
    "5000 digits": "more than 4300 digits",
}


@pytest.mark.parametrize("case", sweep(WHERE))
def test_an_invalid_baseline_file_is_a_usage_error_that_names_the_invalid_place(
    folder: Folder, case: str
) -> None:
    path = edited_baseline_file(folder, case)
    before = path.read_bytes()
    ran = folder.run("--update-baselines", exit_code=4)
    assert f"{path}" in ran.sentence
    assert WHERE[case] in ran.sentence
    assert "EnvironmentKey" not in ran.sentence
    assert path.read_bytes() == before
    assert "busbw: pass" not in ran.text
    assert ran.results is None


def edited_baseline_file(folder: Folder, case: str) -> Path:
    """Store baselines, and change a single place of their file by hand."""
    folder.with_baselines()
    (path,) = folder.baseline_files
    old, new = NONSENSE[case]
    text = path.read_text()
    path.write_text("{\n  nonsense" if case == "no JSON" else text.replace(old, new, 1))
    assert path.read_text() != text
    return path


def test_two_sessions_that_store_baselines_at_the_same_time_lose_no_baseline(
    folder: Folder,
) -> None:
    sessions = [
        folder.start("--update-baselines", f"--payloads={sizes}") for sizes in ("1K,4K", "2K,8K")
    ]
    assert [session.wait(60) for session in sessions] == [0, 0]
    assert [row["payload"] for row in folder.stored["entries"]] == ["1K", "2K", "4K", "8K"]


def publish(folder: Folder, *entries: dict[str, Any]) -> None:
    """Write published figures for eight ranks of a TPU v2 into the folder."""
    document = {
        "document": "busbw published figures",
        "version": 1,
        "source": "a paper",
        "slice": "v2-8",
        "device_kind": "TPU v2",
        "ranks": 8,
        "collective": "all_reduce",
        "algbw_gb_per_s": {row["payload"]: row["algbw_gb_per_s"] for row in entries},
        "doubts": {row["payload"]: row["doubt"] for row in entries if "doubt" in row},
    }
    path = folder.path / "baselines" / "tpu-v2" / "8r" / "published.all_reduce.paper.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))


def test_published_rates_are_shown_next_to_measured_rates_and_fail_no_case(folder: Folder) -> None:
    publish(
        folder,
        {"payload": "1M", "algbw_gb_per_s": 9999.0},
        {"payload": "2M", "algbw_gb_per_s": None, "doubt": "a slip?"},
    )
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    ran = folder.run("--payloads=1M:4M", exit_code=0)
    assert set(ran.outcomes.values()) == {"NO_BASELINE"}
    assert ran.text.count("by another method: v2-8: a paper") == 1
    assert "published: algbw 9999 GB/s" in ran.text
    assert "published: out of memory (a slip?)" in ran.text
    assert ran.case("1M")["published"]["algbw_gb_per_s"] == 9999.0
    assert ran.case("1M")["published"]["source"] == "v2-8: a paper"


@pytest.mark.exhaustive
def test_published_rates_of_the_package_are_shown_for_payloads_without_rates_in_the_folder(
    folder: Folder,
) -> None:
    publish(folder, {"payload": "1M", "algbw_gb_per_s": None})
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    ran = folder.run("--payloads=1M:2M", exit_code=0)
    assert ran.case("1M")["published"]["source"] == "v2-8: a paper"
    assert "marsggbo/TPU_All_reduce" in ran.case("2M")["published"]["source"]


def test_published_rates_do_not_count_as_baselines_and_are_not_changed_by_an_update(
    folder: Folder,
) -> None:
    publish(folder, {"payload": "1M", "algbw_gb_per_s": None})
    (published,) = folder.baseline_files
    before = published.read_bytes()
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    folder.run("--require-baselines", exit_code=1)
    folder.with_baselines()
    assert len(folder.baseline_files) == 2
    assert published.read_bytes() == before


_KILLED = """
import os, signal
_replace = os.replace


def _killed(new, path):
    if str(path).endswith(".json") and "baselines" in str(path):
        os.kill(os.getpid(), signal.SIGKILL)
    _replace(new, path)


os.replace = _killed
"""


@pytest.mark.exhaustive
def test_an_update_removes_only_unfinished_files_of_killed_sessions(
    folder: Folder,
) -> None:
    conftest = folder.path / "conftest.py"
    before = conftest.read_text()
    conftest.write_text(before + _KILLED)
    assert folder.start("--update-baselines").wait(60) == -signal.SIGKILL
    (leftover,) = folder.baseline_files
    assert leftover.name.startswith("fake.all_reduce.fake.json.") and leftover.suffix == ".new"
    other = folder.path / "baselines" / "another-machine" / "4r"
    other.mkdir(parents=True)
    for name in ("jax.all_reduce.psum.json.0123abcd.new", "pylock.jax.toml.01234567.new"):
        (other / name).write_text("{}")
    foreign = [other / "jax.all_reduce.psum.json.new", other / "notes.0123abcd.old"]
    for path in foreign:
        path.write_text("mine")
    conftest.write_text(before)
    folder.run(exit_code=0)
    assert leftover.exists()
    folder.updated()
    assert folder.baseline_files == sorted(
        [*foreign, leftover.with_name("fake.all_reduce.fake.json")]
    )
