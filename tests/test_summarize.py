"""The summary of a workflow run: what it says of results and of a history, and of damaged ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / ".github" / "summarize.py"
# What Markdown, HTML, a table and a terminal each take for something else than text.
HOSTILE = (
    "<img src=x onerror=alert(1)> </details> [a](http://b) ![c](d) `e` **f** _g_ ~h~ &lt; "
    "i | j \\| k \\\n\n# l \x1b[31m \u202e"
)


def _case(**changes: Any) -> dict[str, Any]:
    """The fields of a case in the results that the summary reads."""
    return {
        "id": "jax-default-float32-1K",
        "outcome": "PASS",
        "failed": False,
        "expected": False,
        "text": "as fast as ever",
        "now": {"busbw_gb_per_s": 12.3456},
        "baseline": {"busbw_gb_per_s": 12.5},
        "ratio": 1.0,
        **changes,
    }


def _results(
    path: Path, *cases: dict[str, Any], answers: dict[str, Any] | None = None, kind: str = "TPU v5"
) -> Path:
    """A file of results with these cases and `answers`."""
    document: dict[str, Any] = {
        "environment": {"key": {"device_kind": kind, "ranks": 8}},
        "session": {"outcomes": ["FINE"], "text": "measured", "stack": None, "machine": None},
        "cases": cases,
    }
    document["session"] |= answers or {}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _asked(*paths: Path) -> subprocess.CompletedProcess[str]:
    """What the script says, by a Python that has nothing installed."""
    command = [sys.executable, "-E", "-S", str(SCRIPT), *map(str, paths)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def _lines(*paths: Path) -> list[str]:
    done = _asked(*paths)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def _summary(
    path: Path, *cases: dict[str, Any], answers: dict[str, Any] | None = None
) -> list[str]:
    return _lines(_results(path, *cases, answers=answers))


def test_what_failed_or_changed_comes_first_the_worst_on_top(tmp_path: Path) -> None:
    slow = _case(id="jax-default-float32-2K", outcome="REGRESSED", failed=True, ratio=1.5)
    fast = _case(id="jax-default-float32-4K", outcome="IMPROVED", ratio=0.5)
    none = _case(
        id="jax-default-float32-8K",
        outcome="NO_BASELINE",
        failed=True,
        baseline=None,
        ratio=None,
        text="none",
    )
    lines = _summary(tmp_path / "r.json", _case(), none, fast, slow)
    assert lines[2].startswith("**FAILED**: measured. 2 of 4 cases failed. The ratio is ")
    assert lines[4:12] == [
        "### What changed",
        "",
        "| case | payload | busbw GB/s | baseline GB/s | ratio | outcome |",
        "|---|---:|---:|---:|---:|---|",
        "| jax default float32 | 2K | 12.35 | 12.5 | 1.50 | **REGRESSED**: as fast as ever |",
        "| jax default float32 | 8K | 12.35 |  |  | **NO_BASELINE**: none |",
        "| jax default float32 | 4K | 12.35 | 12.5 | 0.50 | IMPROVED: as fast as ever |",
        "",
    ]
    assert lines[12] == "The other 1: 1 PASS."


@pytest.mark.parametrize(
    "outcome", ["REGRESSED", "IMPROVED", "OUT_OF_MEMORY", "FAILED", "CHANGED", "COMPILE_ERROR"]
)
def test_what_differs_from_the_baseline_is_shown_unless_it_was_expected(
    outcome: str, tmp_path: Path
) -> None:
    lines = _summary(tmp_path / "r.json", _case(outcome=outcome), _case())
    assert lines[8].endswith(f"| 1.00 | {outcome}: as fast as ever |")
    lines = _summary(tmp_path / "r.json", _case(outcome=outcome, expected=True), _case())
    assert lines[4] == f"None of 2 changed: 1 {outcome} as expected, 1 PASS."


def test_what_is_as_usual_is_a_count_and_a_table_that_a_click_unfolds(tmp_path: Path) -> None:
    slower = _case(id="jax-default-float32-4K", ratio=1.9)
    noisy = _case(id="jax-default-float32-8K", outcome="NOISY", ratio=None)
    lines = _summary(tmp_path / "r.json", noisy, _case(), slower)
    assert lines[4:] == [
        "None of 3 changed: 2 PASS, 1 NOISY.",
        "",
        "<details>",
        "<summary>All 3 cases</summary>",
        "",
        "| case | payload | busbw GB/s | baseline GB/s | ratio | outcome |",
        "|---|---:|---:|---:|---:|---|",
        "| jax default float32 | 4K | 12.35 | 12.5 | 1.90 | PASS |",
        "| jax default float32 | 1K | 12.35 | 12.5 | 1.00 | PASS |",
        "| jax default float32 | 8K | 12.35 | 12.5 |  | NOISY |",
        "",
        "</details>",
    ]


def test_if_every_case_changed_nothing_is_said_of_others(tmp_path: Path) -> None:
    text = "\n".join(_summary(tmp_path / "r.json", _case(outcome="FAILED", failed=True)))
    assert "The other" not in text
    assert text.count("**FAILED**: as fast as ever") == 2


def test_the_summary_says_whether_the_stack_got_slower_and_whether_the_machine_did(
    tmp_path: Path,
) -> None:
    answers = {
        "stack": {"text": "nothing slower", "is_slower": False},
        "machine": {"text": "1.2 x | of 6 nights", "is_slower": True},
    }
    lines = _summary(tmp_path / "r.json", _case(), answers=answers)
    assert lines[4:9] == [
        "| | slower? | |",
        "|---|---|---|",
        "| the stack | no | nothing slower |",
        r"| the machine | **yes** | 1.2 x \| of 6 nights |",
        "",
    ]
    lines = _summary(tmp_path / "r.json", _case(), answers=answers | {"stack": None})
    assert lines[6] == "| the stack | unknown | no verdict |"
    untold = {"text": "no earlier night", "is_slower": None}
    lines = _summary(tmp_path / "r.json", _case(), answers=answers | {"machine": untold})
    assert lines[7] == "| the machine | unknown | no earlier night |"


def test_how_many_cases_failed_is_said_once(tmp_path: Path) -> None:
    bad = _case(outcome="FAILED", failed=True)
    said = {"outcomes": ["SLOWER"], "text": "1 of 2 cases failed: 1 FAILED"}
    line = _summary(tmp_path / "r.json", bad, _case(), answers=said)[2]
    assert line.startswith("**SLOWER**: 1 of 2 cases failed: 1 FAILED. The ratio is ")


def test_the_summary_without_a_reference_answers_neither(tmp_path: Path) -> None:
    assert "slower?" not in "".join(_summary(tmp_path / "r.json", _case()))


def test_the_text_of_a_failure_stays_within_its_cell(tmp_path: Path) -> None:
    bad = _case(outcome="FAILED", failed=True, now=None, ratio=None, text="a | b\nc")
    row = _summary(tmp_path / "r.json", bad)[8]
    assert row.endswith(r"| **FAILED**: a \| b c |")


def test_the_summary_says_that_there_are_no_results(tmp_path: Path) -> None:
    assert _lines(tmp_path / "none.json") == ["No results were written; the log says why."]


def _compiled_case(**changes: Any) -> dict[str, Any]:
    return {
        "id": "v5e:2x4-jax-default-float32-1K",
        "spec": {"topology": "v5e:2x4"},
        "program": {"release": "libtpu 0.0.42.1"},
        "outcome": "PASS",
        "failed": False,
        "expected": False,
        "text": "as before",
        **changes,
    }


def _compiled(path: Path, *cases: dict[str, Any]) -> list[str]:
    session = {"outcomes": ["FINE"], "text": "compiled"}
    document = {"environment": None, "session": session, "cases": cases}
    path.write_text(json.dumps(document), encoding="utf-8")
    return _lines(path)


def test_the_summary_of_what_was_compiled_shows_what_is_not_as_before(tmp_path: Path) -> None:
    changed = _compiled_case(outcome="CHANGED", failed=True, text="a -> b | c\nd")
    fits = _compiled_case(outcome="IMPROVED", text="it fits now")
    oom = _compiled_case(outcome="OUT_OF_MEMORY", expected=True, text="too large")
    lines = _compiled(tmp_path / "r.json", _compiled_case(), fits, oom, changed)
    assert lines[2].startswith("**FAILED**: compiled. 1 of 4 cases failed, 2 are not as the")
    assert lines[-2:] == [
        r"| v5e:2x4 | 1K | libtpu 0.0.42.1 | **CHANGED** | a -> b \| c d |",
        "| v5e:2x4 | 1K | libtpu 0.0.42.1 | IMPROVED | it fits now |",
    ]


def test_the_summary_of_what_was_compiled_is_short_where_all_is_as_before(tmp_path: Path) -> None:
    assert len(_compiled(tmp_path / "r.json", _compiled_case())) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 200_000,
        b"5",
        b"\xff",
        b"{}",
        b'{"environment": 1}',
        b'{"environment": [], "session": null, "cases": []}',
        b'{"environment": null, "session": null, "cases": [1' + b"0" * 5000 + b"]}",
    ],
    ids=lambda content: str(content)[:20],
)
def test_damaged_results_are_said_to_be_and_the_step_fails(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    done = _asked(path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("The results are damaged: ")


def test_a_summary_of_text_that_cannot_be_written_shows_it_escaped(tmp_path: Path) -> None:
    assert "\\ud800" in _summary(tmp_path / "r.json", _case(failed=True, text="\ud800"))[8]


def test_a_folder_holds_no_summary(tmp_path: Path) -> None:
    done = _asked(tmp_path)
    assert (done.returncode, done.stdout) == (1, f"{tmp_path} is not a file of results.\n")


def _change(**changes: Any) -> dict[str, Any]:
    return {
        "at": "2026-03-07T03:00:00Z",
        "ratio": 1.1,
        "sessions": 6,
        "changes": ["jax 0.10.0 -> 0.10.1", "host a -> b"],
        "reason": "",
        **changes,
    }


def _case_of_history(*changes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    ordinary = {"name": "jax.all_reduce.psum.float32.4K", "series": "jax", "stack": ""}
    return {**ordinary, "changes": changes, **fields}


def _machine(*cases: dict[str, Any], **fields: Any) -> dict[str, Any]:
    ordinary = {
        "folder": "tpu-v5-lite/4r",
        "sessions": [{"at": "2026-01-01T03:00:00Z"}, {"at": "2026-03-12T03:00:00Z"}],
        "shared_changes": {},
    }
    return {**ordinary, "cases": cases, **fields}


def _changes(folder: Path, *machines: dict[str, Any]) -> list[str]:
    """What follows the cases, for a history of these machines."""
    path = folder / "history.json"
    path.write_text(json.dumps({"machines": machines}), encoding="utf-8")
    lines = _lines(_results(folder / "r.json", _case()), path)
    return lines[lines.index("</details>") + 2 :]


def test_changes_are_shown_newest_first_and_those_of_all_cases_on_top(tmp_path: Path) -> None:
    shared = {"jax": [_change(at="2026-02-01T03:00:00Z", ratio=1.02, reason="see #7")]}
    own = _case_of_history(
        _change(at="2026-03-01T03:00:00Z"),
        _change(at="2026-03-09T03:00:00Z", ratio=0.5, changes=[]),
    )
    turn = "jax in turn with the reference 0123456789abcdef"
    other = _case_of_history(_change(at="2026-03-01T03:00:00Z", ratio=1.3), stack="0", series=turn)
    assert _changes(tmp_path, _machine(own, other, shared_changes=shared)) == [
        "### Levels that changed since 2026-01-11",
        "",
        "tpu-v5-lite/4r: 4 changes",
        "",
        "| since | what | change | sessions | what changed there | accepted |",
        "|---|---|---:|---:|---|---|",
        "| 2026-02-01 | all cases of jax | 2 % slower | 6 | jax 0.10.0 -> 0.10.1, host a -> b "
        "| see #7 |",
        "| 2026-03-09 | jax.all_reduce.psum.float32.4K | 50 % faster | 6 "
        "| nothing that is known |  |",
        f"| 2026-03-01 | jax.all_reduce.psum.float32.4K, {turn} | 30 % slower | 6 "
        "| jax 0.10.0 -> 0.10.1, host a -> b |  |",
        "| 2026-03-01 | jax.all_reduce.psum.float32.4K | 10 % slower | 6 "
        "| jax 0.10.0 -> 0.10.1, host a -> b |  |",
    ]


def test_changes_of_more_than_60_days_before_the_newest_session_are_left_out(
    tmp_path: Path,
) -> None:
    own = _case_of_history(_change(at="2026-01-11T02:59:59Z"))
    assert _changes(tmp_path, _machine(own))[1:] == ["", "tpu-v5-lite/4r: none"]
    own = _case_of_history(_change(at="2026-01-11T03:00:00Z"))
    assert _changes(tmp_path, _machine(own))[2] == "tpu-v5-lite/4r: 1 change"
    later = _machine(folder="cpu/4r", sessions=[{"at": "2026-03-13T03:00:00Z"}])
    lines = _changes(tmp_path, _machine(own), later)
    assert lines[1:] == ["", "tpu-v5-lite/4r: none", "", "cpu/4r: none"]


def test_of_many_changes_the_first_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    own = [_case_of_history(_change(ratio=1 + number / 100)) for number in range(1, 61)]
    lines = _changes(tmp_path, _machine(*own))
    assert lines[2] == "tpu-v5-lite/4r: 60 changes; the first 50 are shown"
    assert len(lines[6:]) == 50
    assert "| 60 % slower |" in lines[6]


def test_a_history_without_a_session_is_said_to_be_empty(tmp_path: Path) -> None:
    assert _changes(tmp_path) == ["The history holds no session."]


def test_no_history_is_said_and_is_no_failure(tmp_path: Path) -> None:
    lines = _lines(_results(tmp_path / "r.json", _case()), tmp_path / "none.json")
    assert lines[-2:] == ["", "No history was written; the log says why."]
    lines = _lines(tmp_path / "none.json", tmp_path / "none.json")
    assert lines[0] == "No results were written; the log says why."


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"machines": 1}',
        b'{"machines": [{"sessions": []}]}',
        b'{"machines": [{"sessions": [{"at": "yesterday"}]}]}',
        b'{"machines": [{"sessions": [{"at": "0001-01-01T00:00:00Z"}]}]}',
    ],
    ids=lambda content: str(content)[:40],
)
def test_a_damaged_history_is_said_to_be_beside_whole_results(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "history.json"
    path.write_bytes(content)
    done = _asked(_results(tmp_path / "r.json", _case()), path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "None of 1 changed: 1 PASS." in done.stdout
    assert done.stdout.splitlines()[-1].startswith("The history is damaged: ")


def test_damaged_results_leave_the_history_to_be_read(tmp_path: Path) -> None:
    path, results = tmp_path / "history.json", tmp_path / "r.json"
    path.write_text(json.dumps({"machines": [_machine(_case_of_history(_change()))]}))
    results.write_text("{}")
    done = _asked(results, path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("The results are damaged: ")
    assert "| 2026-03-07 | jax.all" in done.stdout


# What is markup unless a backslash stands before it; a row has a bar before and after each cell.
_MARKUP = re.compile(r"(?<!\\)(?:\\\\)*[`*\[\]~<]|(?<![\\A-Za-z0-9])_")


def test_no_name_and_no_text_is_taken_for_markup(tmp_path: Path) -> None:
    session = {"outcomes": [HOSTILE], "text": HOSTILE}
    answers = {name: {"text": HOSTILE, "is_slower": None} for name in ("stack", "machine")}
    bad = _case(id=f"{HOSTILE}-a-b-c", outcome=HOSTILE, failed=True, text=HOSTILE)
    usual = _case(outcome=HOSTILE)
    results = _results(
        tmp_path / "r.json", bad, usual, answers=session | answers, kind=f"# {HOSTILE}"
    )
    change = _change(changes=[HOSTILE], reason=HOSTILE)
    own = _case_of_history(change, name=HOSTILE, series=HOSTILE, stack="0")
    machine = _machine(own, folder=HOSTILE, shared_changes={HOSTILE: [change]})
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"machines": [machine]}))
    lines = _lines(results, path)
    assert sum("img src" in line for line in lines) > 8
    ours = {"<details>", "</details>", "<summary>All 2 cases</summary>"}
    for line in lines:
        assert line.isprintable()
        if line in ours:
            continue
        bold = re.sub(r"\*\*(.*?)\*\*(?=[.: |]|$)", r"\1", line)
        assert not _MARKUP.search(bold), line
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) in (4, 7), line
