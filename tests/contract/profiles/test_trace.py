"""`busbw trace`: the recordings that it reads, their figures, and recordings without a figure."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import ROOT, command, of_2019, of_today, put, trace
from tests.helpers.frameworks import needs
from tests.helpers.recordings import (
    Line,
    Made,
    complete,
    numbered,
    packed,
    plane,
    process,
    sized,
    space,
)

KIB, MIB = 2**10, 2**20
# The slowest of each iteration: 100, 130, 110.
TWO = [[100.0, 120.0, 110.0], [90.0, 130.0, 105.0]]
MEDIAN_US = 110.0
OF_16M = 16 * MIB / MEDIAN_US / 1e3
DATA = ROOT / "tests" / "unit" / "extensions" / "profiles" / "data"
BASELINES = ROOT / "baselines" / "tpu-v2"
SCALES = {"1K": -1024, "64K": -16, "1M": 1, "16M": 16, "1024M": 1024}
FOLDERS = {"v2-8": "tpuv2n8_bs1024", "v2-32": "tpu32_bs4096", "v2-128": "tpu128_bs16384"}


def _only(*arguments: str | Path) -> Any:
    (cell,) = trace(*arguments, "--json").document["cells"]
    return cell


def _errors(*arguments: str | Path) -> list[str]:
    """Return the errors of a command that prints no table."""
    answer = trace(*arguments)
    assert (answer.code, answer.table) == (1, [])
    return answer.errors


def test_trace_gives_the_time_of_the_slowest_of_all_cores_on_eight_hosts(tmp_path: Path) -> None:
    hosts = {}
    for host in range(8):
        cores = [[300.0 + core, 200.0 + core, 250.0 + core] for core in range(8)]
        if host == 5:
            cores[3] = [400.0, 410.0, 420.0]
        hosts[f"10.0.0.{host}_chrome"] = of_2019(cores)
    put(tmp_path / "mnist_tpu64_bs8192_scale16", "t", **hosts)
    cell = _only(tmp_path)
    assert (cell["payload_bytes"], cell["slice"], cell["ranks"]) == (16 * MIB, "v2-64", 64)
    times = [iteration["durations_s"] for iteration in cell["iterations"]]
    assert [len(of_devices) for of_devices in times] == [64] * 3
    slowest = [max(of_devices.values()) for of_devices in times]
    assert slowest == pytest.approx([400e-6, 410e-6, 420e-6], rel=0.01)
    assert cell["slowest_rank"]["median_s"] == pytest.approx(410e-6, rel=0.01)
    assert cell["algbw_gb_per_s"] == pytest.approx(16 * MIB / 410e-6 / 1e9, rel=0.01)


def _published(name: str) -> dict[str, float]:
    """Return the published algbw in GB/s of a slice, by payload."""
    (path,) = BASELINES.glob(f"{name.removeprefix('v2-')}r/published.*.json")
    rates = json.loads(path.read_text())["algbw_gb_per_s"]
    return {payload: rate for payload, rate in rates.items() if rate is not None}


def test_trace_reproduces_published_rates_within_one_percent(
    tmp_path: Path,
) -> None:
    published = {name: _published(name) for name in FOLDERS}
    for name, folder in FOLDERS.items():
        for payload, scale in SCALES.items():
            if payload in published[name]:
                size = scale * MIB if scale > 0 else MIB // -scale
                time_us = size / published[name][payload] / 1e3
                content = of_2019([[time_us] * 3, [time_us / 2] * 3])
                put(tmp_path / f"mnist_{folder}_scale{scale}", h_chrome=content)
    answer = trace(tmp_path)
    head, *rows = answer.table
    assert answer.code == 0
    assert head == ["payload", "v2-8 (GB/s)", "v2-32 (GB/s)", "v2-128 (GB/s)"]
    assert [row[0] for row in rows] == list(SCALES)
    for payload, *rates in rows:
        for name, rate in zip(FOLDERS, rates):
            if (payload, name) == ("1024M", "v2-128"):
                assert rate == "-"
            else:
                assert float(rate) == pytest.approx(published[name][payload], rel=0.01)


def test_trace_leaves_out_the_warm_up_and_prints_the_number_of_iterations_below_the_table(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_chrome=of_today(TWO))
    answer = trace(tmp_path, "--payload=16M")
    assert answer.table == [["payload", "2 ranks (GB/s)"], ["16M", f"{OF_16M:.4g}"]]
    assert "2 ranks: 3 iterations" in answer.out


@pytest.mark.parametrize(
    "deep", ["", "plugins", "plugins/profile/t", "plugins/profile/t/a.trace.json.gz"]
)
def test_trace_accepts_the_file_of_a_recording_or_any_folder_above_the_file(
    tmp_path: Path, deep: str
) -> None:
    put(tmp_path, session="t", a_chrome=of_today(TWO))
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
def test_trace_reads_payload_and_slice_from_the_folder_names_of_recordings_of_2019(
    tmp_path: Path, name: str, payload: str, column: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "10.0.0.102.trace.json.gz").write_bytes(of_2019(TWO))
    head, (size, _) = trace(folder).table
    assert (head[1], size) == (f"{column} (GB/s)", payload)


def test_trace_counts_a_recording_once_even_if_its_path_is_given_twice(tmp_path: Path) -> None:
    put(tmp_path, a_chrome=of_today(TWO))
    once = trace(tmp_path, "--payload=16M")
    other = os.path.relpath(tmp_path / "plugins", ROOT)
    assert trace(tmp_path, other, "--payload=16M").out == once.out


def test_trace_combines_recordings_of_the_same_payload_and_column(tmp_path: Path) -> None:
    put(tmp_path, session="first", a_chrome=of_today(TWO))
    put(tmp_path, session="second", a_chrome=of_today([[500.0] * 4, [1.0] * 4]))
    cell = _only(tmp_path, "--payload=16M")
    assert (cell["ranks"], len(cell["iterations"])) == (2, 7)
    assert cell["slowest_rank"]["median_s"] == pytest.approx(500e-6, rel=0.01)


def test_the_payload_in_a_recording_overrides_the_option_payload_of_trace(tmp_path: Path) -> None:
    text = "%all-reduce.1 = f32[1024]{0} all-reduce(f32[1024]{0} %x), channel_id=1"
    put(tmp_path, a_chrome=of_today(TWO, long_name=text))
    assert [row[0] for row in trace(tmp_path, "--payload=16M").table] == ["payload", "4K"]


def test_trace_reads_payload_and_slice_from_folder_names_with_patterns_of_the_user(
    tmp_path: Path,
) -> None:
    for size in ("4K", "2M"):
        put(tmp_path / f"on-v5e-{size}", session="2019", a_chrome=of_today(TWO))
    rules = (r"--payload-from=-(?P<payload>\d+[KM])$", r"--slice-from=on-(?P<slice>\w+)")
    table = trace(tmp_path, *rules).table
    assert table[0] == ["payload", "v5e (GB/s)"]
    assert [row[0] for row in table[1:]] == ["4K", "2M"]


@pytest.mark.parametrize("options", [(), (r"--payload-from=(?P<payload>\d+)Q",)])
def test_trace_gives_an_error_for_a_recording_without_a_payload(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    put(tmp_path, a_chrome=of_today(TWO))
    errors = _errors(tmp_path, *options)
    assert "the recording does not say the payload; give --payload or" in errors[0]


def test_the_busbw_in_the_json_of_trace_is_algbw_times_the_bus_factor(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_chrome=of_today(TWO * 4))
    cell = _only(tmp_path, "--payload=16M")
    assert cell["algbw_gb_per_s"] == pytest.approx(OF_16M)
    assert cell["busbw_gb_per_s"] == pytest.approx(OF_16M * 1.75)


def test_trace_prints_a_table_for_each_collective(tmp_path: Path) -> None:
    rows = []
    for device in (0, 1):
        rows += process(device, f"/device:TPU:{device}", {1: "XLA Ops"})
        for step in range(6):
            name = ("all-reduce.1", "all-gather.1")[step % 2]
            rows.append(complete(name, pid=device, tid=1, ts=1000 * step, dur=100))
    put(tmp_path, a_chrome=packed(rows))
    answer = trace(tmp_path, "--payload=1M", "--collective=all_gather,all_reduce")
    assert [row[0] for row in answer.table] == ["payload", "1M"] * 2
    assert "all_gather, algbw = payload / time" in answer.out


def _of_pytorch(rank: int, *stats: tuple[str, Any]) -> bytes:
    """Return the recording of one rank of two, as PyTorch's profiler writes it."""
    noted = {
        "Collective name": "allreduce",
        "In msg nelems": 2**20,
        "dtype": "Float",
        **dict(stats),
    }
    rows = []
    for step, dur in enumerate((900.0, 100.0 + rank)):
        # The annotation of the call is longer than the kernel and does not count.
        annotation = complete("nccl:all_reduce", pid=9, tid=1, ts=1e4 * step, dur=dur + 50)
        rows.append({**annotation, "cat": "user_annotation", "args": noted})
        row = complete("ncclDevKernel_Generic(x)", pid=rank, tid=7, ts=1e4 * step, dur=dur)
        rows.append({**row, "cat": "kernel", "args": {"device": rank, "Group size": 2, **noted}})
    return json.dumps({"schemaVersion": 1, "traceEvents": rows}).encode()


def test_trace_reads_recordings_of_the_profiler_of_pytorch(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.pt.trace.json").write_bytes(_of_pytorch(rank))
    cell = _only(tmp_path)
    assert (cell["payload"], cell["ranks"], len(cell["iterations"])) == ("4M", 2, 1)
    assert cell["slowest_rank"]["median_s"] == pytest.approx(101e-6)
    (tmp_path / "rank1.pt.trace.json").unlink()
    alone = trace(tmp_path)
    assert "all_reduce: 2 devices take part, and 1 are recorded; --partial" in alone.errors[0]
    unknown = _of_pytorch(0, ("Collective name", "?"))
    (tmp_path / "rank0.pt.trace.json").write_bytes(gzip.compress(unknown))
    partly = trace(tmp_path, "--partial")
    assert ": collective of unknown kind: the recording does not say which" in partly.errors[-1]


def _named(devices: Sequence[Sequence[float]], groups: str) -> bytes:
    """Return a recording whose all-reduce names its replica groups."""
    text = f"%all-reduce.1 = f32[1024]{{0}} all-reduce(f32[1024]{{0}} %x), replica_groups={groups}"
    return of_today(devices, long_name=text)


def _with_idle(content: bytes, *idle: int) -> bytes:
    rows = json.loads(gzip.decompress(content))["traceEvents"]
    return packed(
        [*rows, *(row for device in idle for row in process(device, f"/device:TPU:{device}", {}))]
    )


@pytest.mark.parametrize(
    ("content", "lacks"),
    [
        (_named(TWO[:1], "{{0,1}}"), "2 devices take part, and 1 are recorded"),
        (_named(TWO, "[4,2]<=[8]"), "8 devices take part, and 2 are recorded"),
        (_with_idle(_named(TWO[:1], "{}"), 1, 2), "a/1 has 0 of 4, a/2 has 0 of 4"),
        (_with_idle(of_today(TWO), 2), "a/2 has 0 of 4"),
        (of_today([TWO[0], TWO[1][:2]]), "a/1 has 3 of 4"),
        (_named([TWO[0], TWO[1][:1], *TWO], "[1,4]<=[4]"), "a/1 has 2 of 4"),
    ],
)
def test_trace_refuses_an_incomplete_recording_without_the_option_partial(
    tmp_path: Path, content: bytes, lacks: str
) -> None:
    put(tmp_path, a_chrome=content)
    errors = _errors(tmp_path, "--payload=4K")
    assert errors[0].endswith(f"all_reduce: {lacks}; --partial reads the rest")
    partly = trace(tmp_path, "--payload=4K", "--partial")
    assert (partly.code, len(partly.table)) == (0, 2)
    assert partly.errors == [f"warning: all_reduce: {lacks}"]


def test_trace_accepts_idle_devices_if_the_recording_has_all_devices_of_the_groups(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_chrome=_with_idle(_named(TWO, "{{0,1}}"), 2, 3))
    assert trace(tmp_path).code == 0


def test_trace_adds_up_the_numbers_of_devices_of_all_hosts(tmp_path: Path) -> None:
    put(tmp_path, a_chrome=_named(TWO, "[1,4]<=[4]"), b_chrome=_named(TWO, "[1,4]<=[4]"))
    assert trace(tmp_path).code == 0
    put(tmp_path / "damaged", a_chrome=of_today(TWO), b_chrome=b"")
    errors = _errors(tmp_path / "damaged", "--payload=1M")
    assert "b.trace.json.gz: Expecting value" in errors[0]
    assert "all_reduce: b has 0 of 4; --partial" in errors[1]


def test_trace_prints_collectives_over_only_some_of_the_devices_in_a_separate_column(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_chrome=_named(TWO * 2, "[2,2]<=[4]"))
    assert trace(tmp_path).table[0] == ["payload", "4 ranks, groups of 2 (GB/s)"]
    answer = trace(tmp_path, "--slice-from=(?P<slice>profile|tmp|test)")
    assert answer.table[0][1].endswith(", groups of 2 (GB/s)")


def test_trace_leaves_out_the_warm_up_of_each_call_of_a_program(tmp_path: Path) -> None:
    rows = []
    for device in (0, 1):
        rows += process(device, f"/device:TPU:{device}", {1: "XLA Modules", 2: "XLA Ops"})
        for call in range(3):
            # One device counts its launches from another number on.
            name = f"jit_f({call + 7 * device})"
            rows.append(complete(name, pid=device, tid=1, ts=1e4 * call, dur=9e3))
            for step, dur in enumerate((900.0, 10.0 + call)):
                row = {"pid": device, "tid": 2, "ts": 1e4 * call + 2e3 * step, "dur": dur}
                rows.append({"ph": "X", "name": "all-reduce.1", **row})
    put(tmp_path, a_chrome=packed(rows))
    cell = _only(tmp_path, "--payload=1M")
    slowest = [max(iteration["durations_s"].values()) for iteration in cell["iterations"]]
    assert slowest == pytest.approx([10e-6, 11e-6, 12e-6])


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([[], []], ": all_reduce: there is no time but that of the warm-up"),
        ([[0.0] * 4] * 2, ": all_reduce: there is no time but that of the warm-up"),
        ([[-1.0] * 4] * 2, ": all_reduce: there is no time but that of the warm-up"),
    ],
)
def test_trace_gives_an_error_for_a_recording_without_positive_times_after_the_warm_up(
    tmp_path: Path, devices: list[list[float]], message: str
) -> None:
    put(tmp_path, a_chrome=of_today(devices))
    assert message in _errors(tmp_path, "--payload=1M")[0]


def test_trace_names_a_requested_collective_that_is_missing_in_the_recording(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_chrome=of_today(TWO))
    errors = _errors(tmp_path, "--payload=1M", "--collective=permute")
    assert errors[0].endswith(": no permute with its time in it")


@pytest.mark.parametrize("name", ["", "missing", "a.txt"])
def test_trace_of_a_folder_without_recordings_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("text")
    message = "no recording; expected *.xplane.pb, *trace.json.gz, *trace.json"
    assert _errors(tmp_path / name) == [f"{tmp_path / name}: {message}"]


def test_trace_does_not_read_the_events_of_a_host_again_from_a_recording_for_perfetto(
    tmp_path: Path,
) -> None:
    (tmp_path / "perfetto_trace.json.gz").write_bytes(of_2019(TWO))
    (tmp_path / "t1v.trace.json.gz").write_bytes(of_today(TWO))
    assert _only(tmp_path, "--payload=16M")["ranks"] == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "DIR"),
        ((".", "--payload=x"), "--payload: 'x' is not a size"),
        ((".", "--payload=0"), "--payload: '0' is not a size"),
        ((".", "--size-limit=0"), "--size-limit: '0' is not a size"),
        ((".", "--payload-from=("), "is no regular expression"),
        ((".", "--payload-from=(a)"), "has no group (?P<payload>...)"),
        ((".", "--slice-from=(a)"), "has no group (?P<slice>...)"),
        ((".", "--collective=all_reduce,psum"), "expected one of all_gather,"),
        ((".", "--json=table.json"), "--json"),
        ((".", "--colective=all_reduce"), "unrecognized"),
    ],
)
def test_trace_with_an_invalid_option_ends_with_exit_code_2_and_an_error_message(
    options: tuple[str, ...], sentence: str
) -> None:
    trace(*options).refuses(sentence)


def test_the_json_of_trace_has_payloads_in_bytes_and_a_schema_version(tmp_path: Path) -> None:
    put(tmp_path, a_chrome=of_today(TWO))
    document = trace(tmp_path, "--payload=1K", "--json").document
    (cell,) = document["cells"]
    assert (document["schema_version"], cell["payload"], cell["payload_bytes"]) == (3, "1K", KIB)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (b"[" + b" " * 2**21, "unpacks to more than 1048576 bytes; raise --size-limit"),
        (b"[" + b"[]," * 2**18, "it has more than 1000 values"),
    ],
)
def test_trace_refuses_a_small_file_that_unpacks_to_too_many_bytes_or_values(
    tmp_path: Path, rows: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.extensions.profiles.recordings.MAX_JSON_VALUES", 1000)
    put(tmp_path, a_chrome=gzip.compress(rows))
    assert trace(tmp_path, "--size-limit=1M").errors[0].endswith(f"a.trace.json.gz: {message}")


def test_trace_refuses_a_file_of_a_terabyte_because_of_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    path.touch()
    os.truncate(path, 2**40)
    assert trace(path).errors[0].endswith(" has more than 268435456 bytes; raise --size-limit")


@pytest.mark.parametrize("name", ["a.xplane.pb", "a.trace.json.gz"])
def test_trace_refuses_a_pipe_with_the_name_of_a_recording(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    answer = command("trace", tmp_path)
    assert f"{name}: " in answer.errors[0]
    assert (answer.code, answer.table) == (1, [])


def _xplane(name: str, tmp_path: Path) -> Path:
    path = tmp_path / name.removesuffix(".gz")
    path.write_bytes(gzip.decompress((DATA / name).read_bytes()))
    return path


@needs("jax")
@pytest.mark.parametrize(
    ("name", "iterations", "median_us"),
    # JAX ran each of four instructions once in a call, TensorFlow the same one four times.
    [("jax_cpu.xplane.pb.gz", 8, 55.573), ("tensorflow_cpu.xplane.pb.gz", 9, 93.347)],
)
def test_trace_reads_an_xplane_file_of_jax_and_of_tensorflow(
    tmp_path: Path, name: str, iterations: int, median_us: float
) -> None:
    answer = command("trace", _xplane(name, tmp_path), "--payload=1M", "--json")
    (cell,) = answer.document["cells"]
    assert (answer.code, cell["ranks"], len(cell["iterations"])) == (0, 2, iterations)
    assert cell["slowest_rank"]["median_s"] == pytest.approx(median_us * 1e-6)


@needs("jax")
def test_trace_reads_the_same_times_from_xplane_and_json_and_prefers_xplane(tmp_path: Path) -> None:
    path = _xplane("jax_cpu.xplane.pb.gz", tmp_path)
    as_json = tmp_path / "jax_cpu.trace.json.gz"
    as_json.write_bytes((DATA / as_json.name).read_bytes())
    options = ("--payload=1M", "--json")
    (first,), (second,) = (
        command("trace", recording, *options).document["cells"] for recording in (path, as_json)
    )
    assert first["slowest_rank"]["median_s"] == pytest.approx(second["slowest_rank"]["median_s"])
    assert len(first["iterations"]) == len(second["iterations"])
    as_json.write_bytes(b"damaged")
    assert command("trace", tmp_path, *options).document["cells"] == [first]


@needs("jax")
def test_trace_takes_the_times_of_a_tpu_from_the_clock_of_the_tpu(tmp_path: Path) -> None:
    text = "%all-reduce.1 = f32[1024]{0} all-reduce(%x), replica_groups={{0,1}}"
    events = [
        Made(
            name=text,
            offset_ps=10**9 * step,
            duration_ps=10**8,
            stats={"device_offset_ps": 10**9 * step, "device_duration_ps": 3 * 10**6},
        )
        for step in range(3)
    ]
    planes = [plane(f"/device:TPU:{n}", [Line(name="XLA Ops", events=events)]) for n in (0, 1)]
    (tmp_path / "a.xplane.pb").write_bytes(space(*planes))
    (cell,) = command("trace", tmp_path, "--json").document["cells"]
    assert (cell["payload"], cell["slowest_rank"]["median_s"]) == ("4K", 3e-6)


@needs("jax")
@pytest.mark.parametrize(
    "content", [b"\x8a\x11 random bytes", space(plane("/device:TPU:0", []))[:-3], sized(1, b"\xff")]
)
def test_trace_names_a_damaged_xplane_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(content)
    answer = command("trace", tmp_path)
    assert "a.xplane.pb: not a profiler's recording, or a damaged one: " in answer.errors[0]
    assert answer.code == 1


def test_trace_says_what_to_install_if_jax_is_missing_for_an_xplane_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(sized(1, numbered(1, 1)))
    monkeypatch.setitem(sys.modules, "jax", None)
    assert "reading *.xplane.pb needs `pip install jax`: " in _errors(tmp_path)[0]
