"""Sessions are appended whole, whoever else appends; and the file of acknowledged changes."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

from busbw.history.files import (
    AcknowledgedChange,
    HistoryError,
    append_lines,
    read_acknowledged_changes,
    read_all_machines,
    read_machine_lines,
)
from tests.helpers.history_lines import KEY, line, session

_FIRST, _SECOND = "0" * 16, "1" * 16


def test_a_session_is_appended_to_the_history_file_of_its_year_and_its_machine(
    tmp_path: Path,
) -> None:
    appended = append_lines(tmp_path, KEY, session(_FIRST))
    path = tmp_path / "tpu-v5-lite" / "4r" / "2026.jsonl"
    assert appended == path
    assert read_machine_lines(tmp_path / KEY.folder) == tuple(session(_FIRST))
    assert read_all_machines(tmp_path) == {
        "tpu-v5-lite/4r": read_machine_lines(tmp_path / KEY.folder)
    }


def test_appending_a_session_leaves_earlier_lines_of_a_history_unchanged(
    tmp_path: Path,
) -> None:
    path = append_lines(tmp_path, KEY, session(_FIRST))
    before = path.read_bytes()
    append_lines(tmp_path, KEY, session(_SECOND))
    assert path.read_bytes().startswith(before)
    append_lines(tmp_path, KEY, [line(moment="2025-12-31T03:00:00Z")])
    assert [line.began.year for line in read_machine_lines(tmp_path / KEY.folder)] == [
        2025,
        *[2026] * 4,
    ]


def test_files_of_a_history_for_years_before_the_requested_year_are_not_read(
    tmp_path: Path,
) -> None:
    for year in (2024, 2025, 2026):
        append_lines(tmp_path, KEY, [line(moment=f"{year}-12-31T03:00:00Z")])
    (old,) = tmp_path.rglob("2024.jsonl")
    old.write_text("nonsense\n")
    with pytest.raises(HistoryError):
        read_machine_lines(tmp_path / KEY.folder)
    assert [line.began.year for line in read_machine_lines(tmp_path / KEY.folder, 2025)] == [
        2025,
        2026,
    ]
    assert [line.began.year for line in read_machine_lines(tmp_path / KEY.folder, 2026)] == [2026]
    assert read_machine_lines(tmp_path / KEY.folder, 2027) == ()


def test_a_history_without_sessions_is_empty_and_a_missing_folder_is_an_error(
    tmp_path: Path,
) -> None:
    assert read_machine_lines(tmp_path / KEY.folder) == ()
    with pytest.raises(HistoryError, match=r"^there is no folder "):
        read_all_machines(tmp_path / "missing")


@pytest.mark.parametrize("cut", [2, 40, 300])
def test_an_incomplete_line_of_a_history_is_named_even_after_another_session_is_appended(
    tmp_path: Path, cut: int
) -> None:
    path = append_lines(tmp_path, KEY, session(_FIRST))
    os.truncate(path, path.stat().st_size - cut)
    torn = path.read_bytes()
    for _ in range(2):
        with pytest.raises(HistoryError, match=r"2026\.jsonl: line 2, column \d+: not JSON"):
            read_machine_lines(tmp_path / KEY.folder)
        # Nothing of a session is lost: it begins on a new line.
        append_lines(tmp_path, KEY, session(_SECOND))
    assert path.read_bytes().startswith(torn + b"\n" + session(_SECOND)[0].text.encode())


def test_the_last_line_of_a_history_is_kept_even_if_it_has_no_newline(tmp_path: Path) -> None:
    path = append_lines(tmp_path, KEY, session(_FIRST))
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 1)
    assert read_machine_lines(tmp_path / KEY.folder) == tuple(session(_FIRST))
    append_lines(tmp_path, KEY, session(_SECOND))
    assert path.read_bytes().startswith(whole)
    names = [line.session for line in read_machine_lines(tmp_path / KEY.folder)]
    assert names == [_FIRST, _FIRST, _SECOND, _SECOND]


def test_a_file_in_a_history_that_is_not_named_after_a_year_is_an_error(tmp_path: Path) -> None:
    path = append_lines(tmp_path, KEY, session(_FIRST))
    path.rename(path.with_name("backup.jsonl"))
    with pytest.raises(HistoryError, match="expected a file named for a year"):
        read_machine_lines(tmp_path / KEY.folder)


def test_a_folder_of_a_history_that_is_a_link_is_neither_read_nor_appended_to(
    tmp_path: Path,
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / KEY.folder).parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HistoryError, match="is a link, expected a folder"):
        append_lines(tmp_path, KEY, session(_FIRST))
    with pytest.raises(HistoryError, match="is a link, expected a folder"):
        read_machine_lines(tmp_path / KEY.folder)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_session_whose_lines_do_not_fit_on_the_disk_leaves_the_history_unchanged(
    tmp_path: Path,
) -> None:
    append_lines(tmp_path, KEY, session(_FIRST, cases=2))
    (path,) = tmp_path.rglob("*.jsonl")
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A whole line, and the begin of the next.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) * 7 // 4, limits[1]))
    try:
        with pytest.raises(HistoryError, match="File too large"):
            append_lines(tmp_path, KEY, session(_SECOND, cases=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before


CONFLICT = "<<<<<<< HEAD\n=======\n>>>>>>> other\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{line}\n{line}\n" + CONFLICT, ":3:1: a Git conflict marker, '<<<<<<< HEAD'; resolve"),
        ("{line}\n>>>>>>> other", ":2:1: a Git conflict marker, '>>>>>>> other'"),
        ("{line}\r\n<<<<<<< HEAD\r\n", ":2:1: a Git conflict marker, '<<<<<<< HEAD'"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", ":1:1: a Git LFS pointer"),
    ],
)
def test_a_history_with_a_conflict_marker_or_an_lfs_pointer_cannot_be_appended_to(
    tmp_path: Path, text: str, message: str
) -> None:
    (first, *_) = session(_FIRST)
    path = append_lines(tmp_path, KEY, [first])
    path.write_text(text.replace("{line}", first.text))
    for action in (
        lambda: read_machine_lines(tmp_path / KEY.folder),
        lambda: append_lines(tmp_path, KEY, session(_SECOND)),
    ):
        with pytest.raises(HistoryError) as refused:
            action()
        assert f"{path}{message}" in str(refused.value)
    assert _SECOND not in path.read_text()


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_history_of_another_format_is_refused_and_stays_unchanged(
    tmp_path: Path, end: bytes
) -> None:
    path = append_lines(tmp_path, KEY, session(_FIRST)[:1])
    document = json.loads(path.read_bytes())
    del document["document"], document["version"]
    earlier = json.dumps({"schema": 4, **document}).encode() + end
    path.write_bytes(earlier)
    message = (
        r"2026\.jsonl: line 1: this says None of version None; expected "
        "'busbw record' of version 1: move the file away, and the next session begins a new one"
    )
    for use in (
        lambda: read_machine_lines(tmp_path / KEY.folder),
        lambda: append_lines(tmp_path, KEY, session(_SECOND)),
    ):
        with pytest.raises(HistoryError, match=message):
            use()
    assert [file.name for file in path.parent.iterdir() if file.suffix != ".lock"] == [path.name]
    assert path.read_bytes() == earlier


WHOLE = """
[[change]]
since = 2026-11-03
case = "jax.all_reduce.*"
machine = "tpu-v5-lite/4r"
reason = "waits for all hosts"

[[change]]
since = "2026-11-04"
reason = "new driver"
"""


def _read(folder: Path, text: str) -> tuple[AcknowledgedChange, ...]:
    (folder / "acknowledged.toml").write_text(text)
    return read_acknowledged_changes(folder)


def test_an_acknowledged_change_applies_to_all_cases_and_machines_that_match_its_patterns(
    tmp_path: Path,
) -> None:
    first, second = _read(tmp_path, WHOLE)
    assert first.matches("jax.all_reduce.psum.float32.4K", "tpu-v5-lite/4r")
    assert not first.matches("tensorflow.all_reduce.nccl.float32.4K", "tpu-v5-lite/4r")
    assert not first.matches("jax.all_reduce.psum.float32.4K", "tpu-v5-lite/8r")
    assert second.matches("anything", "anywhere") and second.reason == "new driver"
    assert first.began.isoformat() == "2026-11-03T00:00:00+00:00"


def test_a_missing_or_empty_file_of_acknowledged_changes_acknowledges_no_change(
    tmp_path: Path,
) -> None:
    assert read_acknowledged_changes(tmp_path) == () and _read(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[change]]\nsince = 2026-11-03\n", "file.change[0].reason: missing"),
        (
            '[[change]]\nsince = 2026-11-03\nreason = " "\n',
            "file.change[0].reason: expected the reason",
        ),
        (
            '[[change]]\nsince = "yesterday"\nreason = "x"\n',
            "file.change[0].since: expected a date",
        ),
        ('[[change]]\nreason = "x"\n', "file.change[0].since: missing"),
        ('[[change]]\nsince = 2026-11-03\nreason = "x"\nwho = "me"\n', "file.change[0]"),
        ("changes = 3\n", "file"),
        ("change = 3\n", "file.change"),
        ("[[change\n", "(at line 1, column 9)"),
        ("[[change]]\n" + CONFLICT, "acknowledged.toml:2:1: a Git conflict marker"),
    ],
)
def test_an_invalid_file_of_acknowledged_changes_is_an_error_that_names_the_place(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(HistoryError) as caught:
        _read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "acknowledged.toml"))
    assert message in str(caught.value)
