"""--history: every session that measured is appended, whatever came of it."""

from __future__ import annotations

import pytest

from busbw.history import Line, read_all
from busbw.model import Outcome, SessionOutcome

from .folder import FAKE, SLOW, WITHOUT_CACHE, Folder


def _lines(folder: Folder, name: str = "history") -> tuple[Line, ...]:
    (found,) = read_all(folder.path / name).values()
    return found.lines


def test_a_session_appends_a_line_for_each_case(folder: Folder) -> None:
    folder.script(**SLOW)
    ran = folder.run("--history=history", "--payloads=1K,2K", "--launches=2", exit_code=0)
    found = _lines(folder)
    assert [line.case.payload_bytes for line in found] == [1024, 2048]
    assert [len(line.times_us) for line in found] == [2, 2]
    assert len({line.session for line in found}) == len({line.at for line in found}) == 1
    assert {line.outcome for line in found} == {Outcome.NO_BASELINE}
    assert {line.session_outcome for line in found} == {SessionOutcome.FINE}
    assert all(line.versions == {"fake": "1"} and line.host and line.worker for line in found)
    assert ran.results is not None
    times_s = ran.case("1K")["measured"]["times_s"]
    assert [1e-6 * time_us for time_us in found[0].times_us] == pytest.approx(times_s, rel=1e-5)
    (path,) = (folder.path / "history").rglob("*.jsonl")
    assert f"appended to the history: 2 lines of {path}" in ran.text


def test_sessions_follow_each_other_with_their_verdicts(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.environment.setenv("BUSBW_HISTORY", "history")
    folder.run("--update-baselines", exit_code=0)
    folder.run(exit_code=0)
    folder.script(latency_s=5e-3)
    folder.run(exit_code=1)
    found = _lines(folder)
    assert [line.outcome for line in found] == [
        Outcome.NO_BASELINE,
        Outcome.PASS,
        Outcome.REGRESSED,
    ]
    assert len({line.session for line in found}) == 3
    assert [bool(line.baseline_date) for line in found] == [False, True, True]
    assert found[2].ratio == pytest.approx(5, rel=0.1)


def test_what_was_out_of_memory_or_died_is_a_line_without_times(folder: Folder) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "kill"}])
    folder.run("--history=history", "--payloads=1K,2K", exit_code=1)
    fine, lost = _lines(folder)
    assert fine.failure is None
    assert (lost.outcome, lost.times_us) == (Outcome.FAILED, ())
    assert lost.failure is not None


def test_a_session_that_was_made_slower_on_purpose_says_so(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.run("--history=history", "--inject=delay:50%@1M", exit_code=0)
    (line,) = _lines(folder)
    assert line.injected == "delay:50%@1M"


def test_without_the_option_nothing_is_appended(folder: Folder) -> None:
    ran = folder.run(exit_code=0)
    assert "history" not in ran.text
    assert not list(folder.path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("baselines", "which holds baselines only"),
        ("baselines/fake", "which holds baselines only"),
        ("pytest.ini", "is no folder"),
    ],
)
def test_a_folder_that_cannot_hold_it_is_a_usage_error(
    folder: Folder, name: str, reason: str
) -> None:
    ran = folder.run(f"--history={name}", exit_code=4)
    assert ran.sentence.startswith("ERROR: busbw: --history: ")
    assert ran.sentence.endswith(reason)


def test_with_a_topology_nothing_is_measured_and_nothing_appended(folder: Folder) -> None:
    options = ("perf", "--frameworks=fake", "--topology=v5e:2x4", "--history=history")
    ran = folder.pytest(*options, exit_code=4)
    assert ran.sentence == "ERROR: busbw: --history: not with --topology, which measures nothing"


def test_one_that_cannot_be_written_any_more_is_an_error_after_the_verdicts(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.run("--history=history", exit_code=0)
    (path,) = (folder.path / "history").rglob("*.jsonl")
    before = path.read_bytes()
    folder.fill_disk(len(before) + 64)
    ran = folder.pytest(*FAKE, *WITHOUT_CACHE, "--history=history", exit_code=1, reports=False)
    assert f"ERROR: the history was not appended to: {path}: " in ran.text
    assert path.read_bytes() == before


def test_a_torn_line_is_said(folder: Folder) -> None:
    folder.run("--history=history", exit_code=0)
    (path,) = (folder.path / "history").rglob("*.jsonl")
    path.write_bytes(path.read_bytes() + b'{"schema": 1, "sess')
    ran = folder.run("--history=history", exit_code=0)
    assert "a torn last line of 19 bytes, of a session that was killed, is removed" in ran.text
    assert len(_lines(folder)) == 2


def test_a_session_that_measures_nothing_appends_nothing(folder: Folder) -> None:
    ran = folder.run("--history=history", "--collect-only", exit_code=0)
    assert "appended" not in ran.text
    assert not (folder.path / "history").exists()
