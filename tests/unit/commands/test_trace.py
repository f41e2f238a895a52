"""`python -m busbw trace`: what is found, counted and printed, and said of what is wrong."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from busbw import commands
from busbw.model.words import KIB, MIB
from tests.helpers.command_line import ROOT, of_2019, of_today, put, trace
from tests.helpers.recordings import Line, Made, plane, sized, space

TWO = [[100.0, 120.0, 110.0], [90.0, 130.0, 105.0]]  # the slowest: 100, 130, 110
MEDIAN_US = 110.0
OF_16M = 16 * MIB / MEDIAN_US / 1e3
BASELINES = Path(__file__).parents[3] / "baselines" / "tpu-v2"
SCALES = {"1K": -1024, "64K": -16, "1M": 1, "16M": 16, "1024M": 1024}
FOLDERS = {"v2-8": "tpuv2n8_bs1024", "v2-32": "tpu32_bs4096", "v2-128": "tpu128_bs16384"}


def test_eight_hosts_of_2019_give_the_time_of_the_slowest_core_of_all(tmp_path: Path) -> None:
    hosts = {}
    for host in range(8):
        cores = [[300.0 + core, 200.0 + core, 250.0 + core] for core in range(8)]
        if host == 5:
            cores[3] = [400.0, 410.0, 420.0]
        hosts[f"10.0.0.{host}_chrome"] = of_2019(cores)
    put(tmp_path / "mnist_tpu64_bs8192_scale16", "t", **hosts)
    answer = trace(tmp_path, "--json=-")
    (cell,) = answer.document["cells"]
    assert (answer.code, answer.err) == (0, "")
    assert (cell["payload_bytes"], cell["slice"], cell["ranks"]) == (16 * MIB, "v2-64", 64)
    assert len(cell["devices"]) == 64
    slowest = [one["slowest_s"] for one in cell["iterations"]]
    assert slowest == pytest.approx([400e-6, 410e-6, 420e-6], rel=0.01)
    assert cell["slowest_rank"]["median_s"] == pytest.approx(410e-6, rel=0.01)
    assert cell["devices"]["10.0.0.2/4"]["median_s"] == pytest.approx(254e-6, rel=0.01)
    assert cell["algbw_gb_per_s"] == pytest.approx(16 * MIB / 410e-6 / 1e9, rel=0.01)


def _published(name: str) -> dict[str, float]:
    """The published algbw in GB/s of a slice, by payload."""
    (path,) = BASELINES.glob(f"{name.removeprefix('v2-')}r/published.*.json")
    entries = json.loads(path.read_text())["entries"]
    return {one["payload"]: one["algbw_gb_per_s"] for one in entries if "algbw_gb_per_s" in one}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Recordings whose times are those that the published table says; 1024M is lacking once."""
    for name, folder in FOLDERS.items():
        for payload, scale in SCALES.items():
            rate = _published(name).get(payload)
            if rate:
                time_us = (scale * MIB if scale > 0 else MIB // -scale) / rate / 1e3
                content = of_2019([[time_us] * 3, [time_us / 2] * 3])
                put(tmp_path / f"mnist_{folder}_scale{scale}", h_chrome=content)
    return tmp_path


def test_the_published_table_comes_out_to_a_percent_by_the_names_of_its_folders(
    published: Path,
) -> None:
    answer = trace(published)
    head, *rows = answer.table
    assert answer.code == 0
    assert head == ["payload", "v2-8 (GB/s)", "v2-32 (GB/s)", "v2-128 (GB/s)"]
    assert [row[0] for row in rows] == list(SCALES)
    for payload, *rates in rows:
        for name, rate in zip(FOLDERS, rates):
            if (payload, name) == ("1024M", "v2-128"):
                assert rate == ""
            else:
                assert float(rate) == pytest.approx(_published(name)[payload], rel=0.01)


def test_a_payload_that_a_slice_lacks_is_oom_only_if_asked_for(published: Path) -> None:
    assert "OOM" not in trace(published).out
    assert trace(published, "--oom-for-missing").table[-1][-1] == "OOM"


def test_the_warm_up_does_not_enter_and_below_the_table_stands_on_what_it_rests(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_xplane=of_today(TWO))
    answer = trace(tmp_path, "--payload=16M")
    assert answer.table == [["payload", "2 ranks (GB/s)"], ["16M", f"{OF_16M:.4g}"]]
    says = "2 ranks: 3 iterations, warm-up left out, on 2 devices (2 ranks); 110 us"
    assert says in answer.out


def test_all_quantiles_stand_in_the_document(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today([[100.0, 200.0, 300.0, 400.0, 500.0], [1.0] * 5]))
    document = trace(tmp_path, "--payload=1K", "--json=-").document
    assert document["schema_version"] == 2
    (cell,) = document["cells"]
    wanted = {"median_s": 3e-4, "min_s": 1e-4, "p25_s": 2e-4, "p90_s": 4.6e-4, "mean_s": 3e-4}
    assert cell["slowest_rank"] == pytest.approx(wanted)
    assert cell["devices"]["a/1"]["mean_s"] == pytest.approx(1e-6)
    assert (cell["payload"], cell["payload_bytes"]) == ("1K", KIB)


@pytest.mark.parametrize(
    "deep", ["", "plugins", "plugins/profile/t", "plugins/profile/t/a.xplane.pb"]
)
def test_a_folder_further_up_the_files_own_and_the_file_itself_are_the_same(
    tmp_path: Path, deep: str
) -> None:
    put(tmp_path, session="t", a_xplane=of_today(TWO))
    assert trace(tmp_path / deep, "--payload=16M").table[1][1] == f"{OF_16M:.4g}"


@pytest.mark.parametrize(
    ("name", "payload", "column"),
    [
        ("mnist_tpuv2n8_bs1024_scale-256", "4K", "v2-8"),
        ("mnist_tpuv2n8_bs1024_-scale4", "256K", "v2-8"),
        ("mnist_tpu32_bs4096_scale1", "1M", "v2-32"),
        ("mnist_tpu512a_bs65536_scale128", "128M", "v2-512"),
    ],
)
def test_files_that_lie_right_in_a_folder_of_2019_are_labelled_by_its_name(
    tmp_path: Path, name: str, payload: str, column: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "10.0.0.102.trace.json.gz").write_bytes(of_2019(TWO))
    head, (said, _) = trace(folder).table
    assert (head[1], said) == (f"{column} (GB/s)", payload)


def test_what_is_named_twice_counts_once(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today(TWO))
    once = trace(tmp_path, "--payload=16M")
    other = os.path.relpath(tmp_path / "plugins", ROOT)
    assert trace(tmp_path, other, "--payload=16M").out == once.out


def test_of_two_formats_of_one_recording_only_the_xplane_file_is_read(tmp_path: Path) -> None:
    longer = [[2 * time for time in times] for times in TWO]
    put(tmp_path, a_xplane=of_today(TWO), a_chrome=of_2019(longer), b_chrome=of_2019(TWO))
    document = trace(tmp_path, "--payload=16M", "--json=-").document
    assert [Path(file).name for file in document["files"]] == ["a.xplane.pb", "b.trace.json.gz"]
    (cell,) = document["cells"]
    assert cell["slowest_rank"]["median_s"] == pytest.approx(MEDIAN_US * 1e-6, rel=0.01)
    assert (cell["ranks"], len(cell["iterations"])) == (4, 3)


def test_sessions_of_one_folder_are_joined(tmp_path: Path) -> None:
    put(tmp_path, session="first", a_xplane=of_today(TWO))
    put(tmp_path, session="second", a_xplane=of_today([[500.0] * 4, [1.0] * 4]))
    (cell,) = trace(tmp_path, "--payload=16M", "--json=-").document["cells"]
    assert (cell["ranks"], len(cell["iterations"]), len(cell["folders"])) == (2, 7, 2)
    assert cell["slowest_rank"]["median_s"] == pytest.approx(500e-6, rel=0.01)


def test_the_payload_that_is_recorded_is_truer_than_the_options(tmp_path: Path) -> None:
    text = "%all-reduce.1 = f32[1024]{0} all-reduce(f32[1024]{0} %x), channel_id=1"
    put(tmp_path, a_xplane=of_today(TWO, long_name=text))
    assert [row[0] for row in trace(tmp_path, "--payload=16M").table] == ["payload", "4K"]


def test_payload_and_slice_come_from_the_folders_name_by_rules_of_ones_own(tmp_path: Path) -> None:
    for size in ("4K", "2M"):
        put(tmp_path / f"on-v5e-{size}", a_xplane=of_today(TWO))
    rules = (r"--payload-from=-(?P<payload>\d+[KM])$", r"--slice-from=on-(?P<slice>\w+)")
    table = trace(tmp_path, *rules).table
    assert table[0] == ["payload", "v5e (GB/s)"]
    assert [row[0] for row in table[1:]] == ["4K", "2M"]


def test_the_folder_of_the_time_says_no_payload(tmp_path: Path) -> None:
    put(tmp_path / "x4K", session="2019", a_xplane=of_today(TWO))
    table = trace(tmp_path, r"--payload-from=(?P<payload>\d+K?)").table
    assert [row[0] for row in table] == ["payload", "4K"]


@pytest.mark.parametrize("options", [(), (r"--payload-from=(?P<payload>\d+)Q",)])
def test_without_a_payload_there_is_no_figure(tmp_path: Path, options: tuple[str, ...]) -> None:
    put(tmp_path, a_xplane=of_today(TWO))
    answer = trace(tmp_path, *options)
    assert (answer.code, answer.table) == (1, [])
    assert (
        "the recording does not say the payload; give --payload or --payload-from"
        in answer.errors[0]
    )


@pytest.mark.parametrize(
    ("options", "factor"),
    [((), 1.0), (("--ranks=8",), 1.75), (("--ranks=2",), 1.0)],
)
def test_busbw_is_algbw_times_the_factor_of_the_ranks(
    tmp_path: Path, options: tuple[str, ...], factor: float
) -> None:
    put(tmp_path, a_xplane=of_today(TWO))
    answer = trace(tmp_path, "--payload=16M", "--rate=busbw", *options)
    assert answer.table[1][1] == f"{OF_16M * factor:.4g}"
    assert "busbw = payload / time x 2(n-1)/n" in answer.out


@pytest.mark.parametrize(
    ("devices", "ranks", "says"),
    [
        (
            TWO[:1],
            2,
            "--ranks=2, but it holds 1 device: those that are missing may have been slower",
        ),
        (TWO, 8, "--ranks=8, but it holds 2 devices: those that are missing may have been slower"),
        (TWO, 2, ""),
    ],
)
def test_fewer_devices_than_ranks_are_a_warning(
    tmp_path: Path, devices: Sequence[Sequence[float]], ranks: int, says: str
) -> None:
    put(tmp_path, a_xplane=of_today(devices))
    answer = trace(tmp_path, "--payload=1M", f"--ranks={ranks}")
    warnings = [line for line in answer.out.splitlines() if line.startswith("warning: ")]
    assert [line.endswith(f": {says}") for line in warnings] == [True] * bool(says)
    assert (answer.code, len(answer.table)) == (0, 2)


def test_other_collectives_have_tables_of_their_own_if_they_are_asked_for(tmp_path: Path) -> None:
    events = [
        Made(name=f"{name}.1", offset_ps=10**9 * turn, duration_ps=10**8)
        for turn in range(3)
        for name in ("all-reduce", "all-gather")
    ]
    planes = [plane(f"/device:TPU:{n}", [Line(name="XLA Ops", events=events)]) for n in (0, 1)]
    put(tmp_path, a_xplane=space(*planes))
    collectives = {}
    for kinds in ("all_reduce", "all_gather,all_reduce"):
        cells = trace(tmp_path, "--payload=1M", f"--collective={kinds}", "--json=-").document
        collectives[kinds] = [cell["collective"] for cell in cells["cells"]]
    assert collectives == {
        "all_reduce": ["all_reduce"],
        "all_gather,all_reduce": ["all_gather", "all_reduce"],
    }
    out = trace(tmp_path, "--payload=1M", "--collective=all_gather", "--rate=busbw").out
    assert "all_gather, busbw = payload / time x (n-1)/n" in out


BAD = {
    "cut_chrome": (of_2019(TWO)[:-40], "cut"),
    "empty_chrome": (b"", "the file is empty"),
    "random_chrome": (b"\x8a\x11 random bytes", "not a gzip file"),
    "cut_xplane": (of_today(TWO)[:-40], "goes on to byte"),
    "empty_xplane": (b"", "the file is empty"),
    "random_xplane": (b"\x8a\x11 random bytes", "byte"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_with_the_reason_and_the_rest_is_still_read(
    tmp_path: Path, name: str
) -> None:
    content, reason = BAD[name]
    put(tmp_path / "mnist_tpuv2n8_bs1024_scale1", a_xplane=of_today(TWO))
    put(tmp_path / "mnist_tpuv2n8_bs1024_scale2", "t", **{name: content})
    answer = trace(tmp_path)
    (line,) = answer.errors
    assert name.split("_")[0] in line.split(": ")[0] and reason in line
    assert [row[0] for row in answer.table] == ["payload", "1M"]
    assert answer.code == 1


def test_a_host_that_is_lost_is_a_warning_beside_the_figure_without_it(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today(TWO), b_xplane=b"")
    answer = trace(tmp_path, "--payload=1M")
    assert "without the devices of b" in answer.out
    assert (answer.code, answer.table[0]) == (1, ["payload", "2 ranks (GB/s)"])


def test_where_one_format_is_damaged_the_other_is_read_and_the_damage_still_said(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_xplane=of_today(TWO)[:-5], a_chrome=of_2019(TWO))
    answer = trace(tmp_path, "--payload=1M")
    assert (answer.code, len(answer.errors), len(answer.table)) == (1, 1, 2)
    assert "without" not in answer.out


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([[1.0, 2.0], [1.0]], "rank a/0 has 3 collectives, rank a/1 2: the recording is cut"),
        ([[], []], ": of all_reduce of 1M only the warm-up was recorded"),
        ([[1e-7] * 4] * 2, ": half of all_reduce took less than a picosecond: the recording is d"),
    ],
)
def test_a_recording_that_is_cut_or_damaged_gives_no_figure(
    tmp_path: Path, devices: list[list[float]], said: str
) -> None:
    put(tmp_path, a_xplane=of_today(devices))
    answer = trace(tmp_path, "--payload=1M")
    assert said in answer.errors[0]
    assert (answer.code, answer.out) == (1, "")


def test_a_recording_with_no_collective_is_said_to_have_none(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today([]), b_xplane=of_today(TWO))
    put(tmp_path / "other", a_xplane=of_today(TWO))
    answer = trace(tmp_path, "--payload=1M", "--collective=permute")
    assert [line.split(": ")[1] for line in answer.errors[:-1]].count("no permute in it") == 2
    assert answer.code == 1


def test_one_device_alone_is_no_collective_and_a_warning(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=of_today([[1.0, 2.0]]))
    alone = f"warning: {tmp_path}/plugins/profile/2019-10-14_15:56:32: only one device"
    assert alone in trace(tmp_path, "--payload=1M").out
    assert alone not in trace(tmp_path, "--payload=1M", "--ranks=8").out


def test_sessions_on_other_numbers_of_devices_are_joined_with_a_warning(tmp_path: Path) -> None:
    put(tmp_path, session="s", a_xplane=of_today(TWO))
    put(tmp_path, session="t", a_xplane=of_today([*TWO, *TWO]))
    assert "warning" not in trace(tmp_path, "--payload=1M").out
    answer = trace(tmp_path, "--payload=1M", "--slice-from=(?P<slice>plugins|test)")
    assert "warning: test: sessions on 2 and 4 devices are joined" in answer.out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "no recording in it; expected *.xplane.pb, *.trace.json.gz or perfetto_trace.json.gz"),
        ("missing", "there is no such file or folder"),
        ("a.txt", "not a recording; expected *.xplane.pb, *.trace.json.gz or perfetto"),
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


def test_a_recording_for_perfetto_is_read_where_it_is_the_only_one(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "t"
    folder.mkdir(parents=True)
    alone = folder / "perfetto_trace.json.gz"
    alone.write_bytes(of_2019(TWO))
    for path in (alone, tmp_path):
        assert trace(path, "--payload=16M").table[1][1] == f"{OF_16M:.4g}"
    (folder / "a.xplane.pb").write_bytes(of_today(TWO))
    files = trace(tmp_path, "--payload=16M", "--json=-").document["files"]
    assert [Path(file).name for file in files] == ["a.xplane.pb"]


@pytest.mark.parametrize("key", ["schemaVersion", "distributedInfo"])
def test_a_recording_of_pytorch_is_named(tmp_path: Path, key: str) -> None:
    events = [{"ph": "X", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ts": 1, "dur": 2}]
    content = gzip.compress(json.dumps({key: 1, "traceEvents": events}).encode())
    (tmp_path / "rank0.pt.trace.json.gz").write_bytes(content)
    answer = trace(tmp_path, "--payload=16M")
    assert "a recording of PyTorch's profiler; expected one of JAX's or" in answer.errors[0]
    assert answer.code == 1


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
    put(tmp_path, a_chrome=of_2019(TWO))
    assert commands.main(["trace", str(tmp_path), "--payload=1M"]) == 1
    said = capsys.readouterr()
    assert "32 events: cut" in said.err
    assert "1M" in said.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "DIR"),
        ((".", "--payload=x"), "--payload: 'x' is not a size"),
        ((".", "--payload=0"), "--payload: '0' is not a size"),
        ((".", "--size-limit=0"), "--size-limit: '0' is not a size"),
        ((".", f"--size-limit={'9' * 400}"), "is not a size"),
        ((".", "--payload-from=("), "is no regular expression"),
        ((".", "--payload-from=(a)"), "has no group (?P<payload>...)"),
        ((".", "--slice-from=(a)"), "has no group (?P<slice>...)"),
        ((".", "--payload=1M", "--payload-from=(?P<payload>a)"), "not allowed with"),
        ((".", "--ranks=1"), "a whole number from 2 on"),
        ((".", "--ranks=two"), "a whole number from 2 on"),
        ((".", "--rate=fast"), "--rate"),
        ((".", "--collective=all_reduce,psum"), "expected one of all_reduce,"),
        ((".", "--json=."), "is also an input and would be lost"),
        ((".", "--json=no/such/folder/x"), "there is no folder"),
        ((".", "--colective=all_reduce"), "unrecognized"),
    ],
)
def test_a_usage_error_ends_with_2_and_says_what_is_accepted(
    options: tuple[str, ...], sentence: str
) -> None:
    trace(*options).refuses(sentence)


def _named(devices: Sequence[Sequence[float]], groups: str) -> bytes:
    """A recording whose all-reduce names its replica groups."""
    text = f"%all-reduce.1 = f32[1024]{{0}} all-reduce(f32[1024]{{0}} %x), replica_groups={groups}"
    return of_today(devices, long_name=text)


def _with_idle(content: bytes, *idle: int) -> bytes:
    return content + space(*(plane(f"/device:TPU:{one}", []) for one in idle))


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        (_named(TWO[:1], "{{0,1}}"), "missing: 1 device without any record"),
        (_named(TWO[:1], "[1,2]<=[2]"), "missing: 1 device without any record"),
        (_named(TWO, "[4,2]<=[8]"), "those of a/0, a/1; missing: 6 devices without any record"),
        (_with_idle(_named(TWO[:1], "{}"), 1, 2, 3), "those of a/0; missing: a/1, a/2, a/3"),
        (_with_idle(of_today(TWO), 2), "those of a/0, a/1; missing: a/2"),
        (
            _with_idle(of_today([TWO[0]] * 12), *range(12, 30)),
            "a/7, 4 more; missing: a/12, a/13, a/14, a/15, a/16, a/17, a/18, a/19, 10 more",
        ),
        (of_today(TWO) + sized(4, "a") + sized(4, "b"), "those of a/0, a/1; missing: host b"),
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


@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        ("{{0,1},{2}}", "'replica_groups={{0,1},{2}}'"),
        ("[1000000000,1000000000]<=[1000000000000000000]", "'replica_groups=[1000000000,10000000"),
        ("{{0,1}\x1b[31m", "'replica_groups={{0,1}\\x1b[31m'"),
        ("mesh['x'=2] {'y'}", "\"replica_groups=mesh['x'=2]\""),
        ("{}, to_apply=%a", ""),
        ("{{}}, to_apply=%a", ""),
        ("{{0,1}}", ""),
    ],
)
def test_groups_that_cannot_be_used_are_a_warning(tmp_path: Path, groups: str, shown: str) -> None:
    put(tmp_path, a_xplane=_named(TWO, groups))
    answer = trace(tmp_path)
    warnings = [line for line in answer.out.splitlines() if line.startswith("warning: ")]
    assert [shown in line and " does not count: accepted are" in line for line in warnings] == (
        [True] if shown else []
    )
    assert (answer.code, answer.err, len(answer.table)) == (0, "", 2)


def test_idle_devices_beside_as_many_as_the_groups_name_are_not_missed(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=_with_idle(_named(TWO, "{{0,1}}"), 2, 3))
    answer = trace(tmp_path)
    assert (answer.code, answer.err, "warning" in answer.out) == (0, "", False)


def test_the_devices_of_all_hosts_together_are_those_that_the_groups_name(tmp_path: Path) -> None:
    put(tmp_path, a_xplane=_named(TWO, "[1,4]<=[4]"), b_xplane=_named(TWO, "[1,4]<=[4]"))
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
