"""`python -m busbw trace` where something is wrong: what is said, what is read all the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from busbw import commands
from tests.traces.written import Line, Made, plane, sized, space

from .asked import of_2019, of_today, put, trace

GOOD = [[100.0, 120.0, 110.0], [90.0, 130.0, 105.0]]
BAD = {
    "cut_chrome": (of_2019(GOOD)[:-40], "cut"),
    "empty_chrome": (b"", "the file is empty"),
    "random_chrome": (b"\x8a\x11 random bytes", "not a gzip file"),
    "cut_xplane": (of_today(GOOD)[:-40], "goes on to byte"),
    "empty_xplane": (b"", "the file is empty"),
    "random_xplane": (b"\x8a\x11 random bytes", "byte"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_with_the_reason_and_the_rest_is_still_read(
    tmp_path: Path, name: str
) -> None:
    content, reason = BAD[name]
    put(tmp_path / "mnist_tpuv2n8_bs1024_scale1", a_xplane=of_today(GOOD))
    put(tmp_path / "mnist_tpuv2n8_bs1024_scale2", "t", **{name: content})
    answer = trace(tmp_path)
    (line,) = answer.errors
    assert name.split("_")[0] in line.split(": ")[0] and reason in line
    assert [row[0] for row in answer.table] == ["payload", "1M"]
    assert answer.code == 1


def test_a_host_that_is_lost_is_a_warning_beside_the_figure_without_it(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today(GOOD), b_xplane=b"")
    answer = trace(tmp_path, "--payload=1M")
    assert "without the devices of b" in answer.out
    assert (answer.code, answer.table[0]) == (1, ["payload", "2 ranks (GB/s)"])


def test_where_one_format_is_damaged_the_other_is_read_and_the_damage_still_said(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_xplane=of_today(GOOD)[:-5], a_chrome=of_2019(GOOD))
    answer = trace(tmp_path, "--payload=1M")
    assert (answer.code, len(answer.errors), len(answer.table)) == (1, 1, 2)
    assert "without" not in answer.out


def test_devices_with_unequal_counts_are_a_cut_recording_and_give_no_figure(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today([[1.0, 2.0], [1.0]]))
    answer = trace(tmp_path, "--payload=1M")
    assert "rank a/0 has 3 collectives, rank a/1 2: the recording is cut" in answer.errors[0]
    assert (answer.code, answer.out) == (1, "")


def test_a_recording_with_no_collective_is_said_to_have_none(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today([]), b_xplane=of_today(GOOD))
    put(tmp_path / "other", a_xplane=of_today(GOOD))
    answer = trace(tmp_path, "--payload=1M", "--collective=permute")
    assert [line.split(": ")[1] for line in answer.errors[:-1]].count("no permute in it") == 2
    assert answer.code == 1


def test_a_recording_of_the_warm_up_alone_gives_no_figure(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today([[], []]))
    answer = trace(tmp_path, "--payload=1M")
    assert answer.errors[0].endswith("of all_reduce of 1M only the warm-up was recorded")
    assert answer.code == 1


def test_one_device_alone_is_no_collective_and_a_warning(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today([[1.0, 2.0]]))
    assert "warning" in trace(tmp_path, "--payload=1M").out
    assert "warning" not in trace(tmp_path, "--payload=1M", "--ranks=8").out


def test_sessions_on_other_numbers_of_devices_are_joined_with_a_warning(tmp_path: Path) -> None:
    put(tmp_path, session="s", a_xplane=of_today(GOOD))
    put(tmp_path, session="t", a_xplane=of_today([*GOOD, *GOOD]))
    assert "warning" not in trace(tmp_path, "--payload=1M").out
    answer = trace(tmp_path, "--payload=1M", "--slice-from=(?P<slice>plugins|test)")
    assert "warning: test: sessions on 2 and 4 devices are joined" in answer.out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "no recording in it (*.xplane.pb or *.trace.json.gz)"),
        ("missing", "there is no such file or folder"),
        ("a.txt", "not a recording; accepted is *.xplane.pb or *.trace.json.gz"),
    ],
)
def test_where_there_is_nothing_to_read_that_is_said(
    tmp_path: Path, name: str, sentence: str
) -> None:
    (tmp_path / "a.txt").write_text("text")
    answer = trace(tmp_path / name)
    assert sentence in answer.errors[0]
    assert answer.errors[1] == "nothing was read: there is no table"
    assert (answer.code, answer.out) == (1, "")


def test_a_folder_that_bears_the_name_of_a_file_is_none(tmp_path: Path) -> None:
    put(tmp_path, session="s", a_xplane=of_today(GOOD))
    folder = tmp_path / "plugins" / "profile" / "s" / "b.xplane.pb"
    folder.mkdir()
    answer = trace(tmp_path, folder, "--payload=1M")
    assert answer.errors == [f"{folder}: no recording in it (*.xplane.pb or *.trace.json.gz)"]
    assert (answer.code, len(answer.table)) == (1, 2)


def test_problems_stand_in_the_document_too(tmp_path: Path) -> None:
    put(tmp_path, b_xplane=b"")
    answer = trace(tmp_path, "--payload=1M", "--json=-")
    (problem,) = answer.document["problems"]
    assert problem["path"].endswith("b.xplane.pb")
    assert (problem["text"], answer.document["cells"]) == ("the file is empty", [])


def test_a_recording_of_a_million_events_is_said_to_be_cut_and_still_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("busbw.traces.chrome.MOST_EVENTS", 32)
    put(tmp_path, a_chrome=of_2019(GOOD))
    assert commands.main(["trace", str(tmp_path), "--payload=1M"]) == 1
    said = capsys.readouterr()
    assert "32 events: cut" in said.err
    assert "1M" in said.out


def test_a_document_that_cannot_be_written_is_a_problem_and_the_table_is_printed(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_xplane=of_today(GOOD))
    answer = trace(tmp_path, "--payload=1M", "--json=/dev/full")
    assert answer.errors[-1] == "/dev/full: No space left on device"
    assert (answer.code, len(answer.table)) == (1, 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "DIR"),
        ((".", "--payload=x"), "--payload: 'x' is not a size"),
        ((".", "--payload=0"), "--payload: '0' is not a size"),
        ((".", "--payload-from=("), "is no regular expression"),
        ((".", "--payload-from=(a)"), "has no group (?P<payload>...)"),
        ((".", "--slice-from=(a)"), "has no group (?P<slice>...)"),
        ((".", "--payload=1M", "--payload-from=(?P<payload>a)"), "not allowed with"),
        ((".", "--ranks=1"), "a whole number from 2 on"),
        ((".", "--ranks=two"), "a whole number from 2 on"),
        ((".", "--rate=fast"), "--rate"),
        ((".", "--collective=all_reduce,psum"), "'psum'; accepted are all_reduce,"),
        ((".", "--json=."), "is a folder"),
        ((".", "--json=no/such/folder/x"), "there is no folder"),
        ((".", "--colective=all_reduce"), "unrecognized"),
    ],
)
def test_a_usage_error_ends_with_2_and_says_what_is_accepted(
    options: tuple[str, ...], sentence: str
) -> None:
    answer = trace(*options)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.errors[-1]


def _named(devices: Sequence[Sequence[float]], groups: str) -> bytes:
    """A recording whose all-reduce names its replica groups."""
    text = f"%all-reduce.1 = f32[1024]{{0}} all-reduce(f32[1024]{{0}} %x), replica_groups={groups}"
    return of_today(devices, long_name=text)


def _with_idle(content: bytes, *idle: int) -> bytes:
    return content + space(*(plane(f"/device:TPU:{one}", []) for one in idle))


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        (_named(GOOD[:1], "{{0,1}}"), "missing: 1 device without any record"),
        (_named(GOOD[:1], "[1,2]<=[2]"), "missing: 1 device without any record"),
        (_named(GOOD, "[4,2]<=[8]"), "those of a/0, a/1; missing: 6 devices without any record"),
        (_with_idle(_named(GOOD[:1], "{}"), 1, 2, 3), "those of a/0; missing: a/1, a/2, a/3"),
        (_with_idle(of_today(GOOD), 2), "those of a/0, a/1; missing: a/2"),
        (
            _with_idle(of_today([GOOD[0]] * 12), *range(12, 30)),
            "a/7, 4 more; missing: a/12, a/13, a/14, a/15, a/16, a/17, a/18, a/19, 10 more",
        ),
        (of_today(GOOD) + sized(4, "a") + sized(4, "b"), "those of a/0, a/1; missing: host b"),
    ],
)
def test_devices_and_hosts_that_the_recording_names_and_lacks_are_said_unless_that_is_asked_for(
    tmp_path: Path, content: bytes, missing: str
) -> None:
    put(tmp_path, a_xplane=content)
    answer = trace(tmp_path, "--payload=4K")
    assert (answer.code, answer.out) == (1, "")
    assert missing in answer.errors[0] and answer.errors[0].endswith("; --partial reads the rest")
    partly = trace(tmp_path, "--payload=4K", "--partial")
    assert (partly.code, partly.err, len(partly.table)) == (0, "", 2)
    assert f"{missing}\n" in partly.out


def test_idle_devices_beside_as_many_as_the_groups_name_are_not_missed(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=_with_idle(_named(GOOD, "{{0,1}}"), 2, 3))
    answer = trace(tmp_path)
    assert (answer.code, answer.err, "warning" in answer.out) == (0, "", False)


def test_the_devices_of_all_hosts_together_are_those_that_the_groups_name(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=_named(GOOD, "[1,4]<=[4]"), b_xplane=_named(GOOD, "[1,4]<=[4]"))
    assert trace(tmp_path).code == 0
    (tmp_path / "plugins/profile/2019-10-14_15:56:32/b.xplane.pb").unlink()
    answer = trace(tmp_path)
    assert answer.code == 1
    assert "4 devices take part, and it holds those of a/0, a/1" in answer.err


@pytest.mark.parametrize(("last", "said"), [(1, True), (3, False)])
def test_a_last_launch_with_fewer_collectives_than_every_other_one_is_said(
    tmp_path: Path, last: int, said: bool
) -> None:
    events = [
        Made(
            name="all-reduce.1",
            offset_ps=10**9 * (10 * call + at),
            duration_ps=10**8,
            stats={"run_id": call},
        )
        for call, count in enumerate([3, 3, last], 1)
        for at in range(count)
    ]
    planes = [plane(f"/device:TPU:{one}", [Line(name="XLA Ops", events=events)]) for one in (0, 1)]
    put(tmp_path, a_xplane=space(*planes))
    answer = trace(tmp_path, "--payload=1M")
    assert answer.code == 0
    text = "the last launch of a program holds 1, the others 3 or more: the recording may end"
    assert (text in answer.out) is said
