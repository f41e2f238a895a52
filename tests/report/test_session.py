"""What a terminal shows of a session: the header, all tables, and what an interrupt left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.machine import Environment
from busbw.model.training import CNN, CNN_BYTES
from busbw.model.verdict import Curve, SizeGroup, Verdict
from busbw.model.words import Device
from busbw.report.renderers import rendered
from busbw.report.session import (
    change_tables,
    curve_tables,
    header_lines,
    measured_table,
    session_tables,
    step_tables,
    strategy_tables,
)
from busbw.report.table import Table
from tests import build
from tests.report.shown import verdict_lines

FOLDER = PurePosixPath("amd-epyc-2c/4r")


def _header(
    environment: Environment | None = None, root: Path = Path("gone"), **unreached: str
) -> list[str]:
    return list(header_lines(environment or build.environment(), root, unreached))


def _on_tpu(**key: Any) -> Environment:
    tpu = build.key(device_kind="TPU v5 lite", cores=None, **key)
    return build.environment(device=Device.TPU, key=tpu)


def test_a_cpu_says_its_cores_and_that_its_devices_are_virtual() -> None:
    assert _header()[0] == ("busbw device: AMD EPYC (CPU, 2 cores), 4 virtual devices; asked for")


@pytest.mark.parametrize(
    ("device", "cores", "shown"),
    [
        (Device.CPU, 2, "(CPU, 2 cores, quota 0.25 CPU), "),
        (Device.GPU, None, "(GPU, quota 0.25 CPU), "),
    ],
)
def test_a_cpu_quota_is_said_beside_any_device(
    device: Device, cores: int | None, shown: str
) -> None:
    flags = {"CPU quota": "0.25 CPU"}
    found = build.environment(device=device, key=build.key(cores=cores), flags=flags)
    assert shown in _header(found)[0]


def test_the_devices_of_several_processes_of_a_cpu_are_not_virtual() -> None:
    found = build.environment(key=build.key(processes=4))
    assert _header(found)[0].startswith("busbw device: AMD EPYC (CPU, 2 cores), 4 ranks, 1 host, ")


def test_why_other_devices_were_not_found_is_said_only_if_more_is_asked_for() -> None:
    found = build.environment(not_found=("no TPU to measure on (jax: no libtpu)",))
    assert "libtpu" not in "".join(_header(found))
    lines = header_lines(found, None, {}, verbose=True)
    assert lines[1] == "busbw device: no TPU to measure on (jax: no libtpu)"


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ({"ranks": 8}, "8 ranks;"),
        ({"ranks": 8, "mesh": "2x4"}, "8 ranks in a 2x4 mesh;"),
        ({"ranks": 16, "hosts": 4, "processes": 4}, "16 ranks, 4 hosts, 4 processes;"),
        (
            {"ranks": 2, "processes": 2, "shared": True},
            "2 ranks, 1 host, 2 processes, on a shared device;",
        ),
    ],
)
def test_an_accelerator_says_ranks_mesh_and_hosts(key: dict[str, Any], shape: str) -> None:
    assert f"busbw device: TPU v5 lite (TPU), {shape}" in _header(_on_tpu(**key))[0]


def test_every_framework_says_its_versions() -> None:
    versions = {"jax": {"jax": "0.10.0", "jaxlib": "0.10.1"}, "tensorflow": {"tensorflow": "2.20"}}
    lines = _header(build.environment(versions=versions))
    assert "busbw jax: jax 0.10.0, jaxlib 0.10.1" in lines
    assert "busbw tensorflow: tensorflow 2.20" in lines


def test_a_framework_that_does_not_reach_the_device_is_not_passed_over_in_silence() -> None:
    lines = _header(tensorflow="not built for it")
    assert "busbw tensorflow: does not reach the device: not built for it" in lines


def test_the_baselines_folder_is_named_and_whether_it_is_there(tmp_path: Path) -> None:
    assert _header(root=tmp_path)[-1] == f"busbw baselines: {tmp_path / FOLDER} (none yet)"
    (tmp_path / FOLDER).mkdir(parents=True)
    assert _header(root=tmp_path)[-1] == f"busbw baselines: {tmp_path / FOLDER}"


def shown(*tables: Table) -> list[str]:
    """As a terminal shows them."""
    return rendered("text", *tables)


def test_verdicts_come_before_steps_and_these_before_curves() -> None:
    step = build.verdict(spec=build.spec(step="dense"), case=build.case(step="dense"))
    curve = Curve(latency_s=1e-5, bandwidth_bytes_per_s=1e9, rms_log_error=0.0)
    tables = session_tables([step], {}, [_group(curve)])
    assert [table.columns[-1].id for table in tables] == ["outcome", "overlap_fraction", "curve"]


def test_a_session_without_verdicts_has_no_tables() -> None:
    assert session_tables([], {}) == []


def test_an_interrupted_session_says_what_it_has_measured() -> None:
    (line,) = shown(measured_table([(build.case(), build.summary())], launches=5))
    assert line.startswith("jax.all_reduce.psum.float32.4K ")
    assert line.endswith("1 ms  algbw 4 GB/s, busbw 6 GB/s  (3 of 5 launches)")


def test_an_interrupt_before_anything_was_measured_says_that() -> None:
    assert shown(measured_table([], launches=3)) == ["nothing was measured before the interrupt"]


def test_changed_baselines_are_listed_by_file_before_and_after() -> None:
    case = build.case(payload_bytes=2**20)
    changes = [
        ("a.json", case, None, build.baseline(1e-3, 2e-3, 3e-3), "NO_BASELINE"),
        ("a.json", case, build.baseline(1e-3), build.baseline(), ""),
        ("b.json", case, build.baseline(), build.baseline(1e-3), ""),
    ]
    lines = shown(*change_tables(changes))
    assert [line for line in lines if line.startswith("baselines")] == [
        "baselines written: a.json",
        "baselines written: b.json",
    ]
    assert (
        "none -> 2 ms (0.7864 GB/s busbw, 3 launches of 1 session, pinned 2 ms)  NO_BASELINE"
        in lines[2]
    )
    assert "float32 1M" in lines[2]
    assert (
        "1 ms (1.573 GB/s busbw, 1 launch of 1 session, pinned 1 ms) -> out of memory" in lines[3]
    )
    assert "out of memory -> 1 ms" in lines[-1]


def test_a_changed_baseline_of_two_launches_shows_the_median_of_both() -> None:
    changes = [("a.json", build.case(), None, build.baseline(1e-3, 2e-3), "PASS")]
    lines = shown(*change_tables(changes))
    assert "none -> 1.5 ms" in lines[-1]


def test_no_changed_baselines_are_no_lines() -> None:
    assert shown(*change_tables([])) == []


def _group(now: Curve, before: Curve | None = None, framework: str = "jax") -> SizeGroup:
    case = build.case(framework=framework)
    return SizeGroup(case=case, before=before, now=now, shifted="")


BEFORE = Curve(latency_s=52.06e-6, bandwidth_bytes_per_s=3.412e9, rms_log_error=0.05)
NOW = Curve(latency_s=60.34e-6, bandwidth_bytes_per_s=3.401e9, rms_log_error=0.081)


def test_a_group_without_a_baseline_has_its_figures_of_now_below_what_was_fitted() -> None:
    assert shown(*curve_tables([_group(NOW)])) == [
        "",
        "latency + payload / bandwidth, fitted to all payloads:",
        "    jax all_reduce (psum)  latency 60.3 us, bandwidth 3.40 GB/s (fit error 8 %)",
    ]


def test_a_group_with_a_baseline_has_both_before_and_now() -> None:
    (line,) = shown(*curve_tables([_group(NOW, BEFORE)]))[2:]
    assert line == (
        "    jax all_reduce (psum)  latency 52.1 us -> 60.3 us, bandwidth 3.41 GB/s -> 3.40 GB/s "
        "(fit error 8 %)"
    )


def test_the_figures_of_several_groups_stand_below_one_another() -> None:
    groups = [_group(NOW, framework=name) for name in ("jax", "tensorflow")]
    first, second = shown(*curve_tables(groups))[2:]
    assert first.index("latency") == second.index("latency")


@pytest.mark.parametrize(
    ("latency_s", "bytes_per_s", "words"),
    [
        (0.0, 1.2341e12, "latency too small to see, bandwidth 1234 GB/s (fit error 0 %)"),
        (999.6e-6, 3.4e9, "latency 1000 us,"),
    ],
)
def test_no_figure_is_written_with_an_exponent(
    latency_s: float, bytes_per_s: float, words: str
) -> None:
    curve = Curve(latency_s=latency_s, bandwidth_bytes_per_s=bytes_per_s, rms_log_error=0.0)
    assert words in shown(*curve_tables([_group(curve)]))[2]


STEP = build.spec(step="dense")


def _step(**changes: object) -> Verdict:
    case = build.case(step="dense", protocol="host/dense-step-16-rows/hugepages")
    return replace(build.verdict(spec=STEP, case=case), **changes)  # type: ignore[arg-type]


def test_a_step_has_its_all_reduce_alone_beside_it_whatever_program_timed_that() -> None:
    alone = build.verdict(now=build.summary(median_s=2.5e-4))
    _, heading, _, _, row, *_ = shown(*step_tables([_step(), alone], {}))
    assert heading == "jax all_reduce (psum), in a dense step, 4 ranks:"
    assert row.split() == ["4K", "1", "ms", "250", "us", "25"]


def test_that_of_another_payload_is_none() -> None:
    other = build.verdict(case=build.case(payload_bytes=8192))
    row = shown(*step_tables([_step(), other], {}))[4]
    assert row.split() == ["4K", "1", "ms"]


def test_inside_is_the_median_over_launches_of_the_last_and_of_the_first_rank() -> None:
    runs = tuple(
        build.run(over_ranks_s={"slowest": 5e-4 * n, "mean": 4e-4, "fastest": 1e-4 * n})
        for n in (1, 2, 3)
    )
    measured = {STEP: Measurement(case=build.case(step="dense"), runs=runs)}
    row = shown(*step_tables([_step()], measured))[4]
    assert row.split() == ["4K", "1", "ms", "200", "us", "1", "ms"]


def test_hidden_is_the_median_over_the_launches_that_know_it() -> None:
    inside = {"slowest": 1e-3, "mean": 4e-4, "fastest": 2e-4}
    runs = tuple(
        build.run(over_ranks_s=inside, overlap_fraction=share) for share in (0.25, None, 0.0, 1.0)
    )
    measured = {STEP: Measurement(case=build.case(step="dense"), runs=runs)}
    row = shown(*step_tables([_step()], measured))[4]
    assert row.split() == ["4K", "1", "ms", "200", "us", "1", "ms", "25"]


def test_a_step_that_gave_no_time_has_no_line() -> None:
    assert shown(*step_tables([_step(now=None)], {})) == []


def test_the_table_shows_no_rates_of_a_step() -> None:
    lines = verdict_lines([_step()])
    assert lines[1].text.endswith(", time of a whole dense step")
    assert lines[4].text.split() == ["4K", "1000.0", "-10+10", "PASS"]


def _verdict(strategy: str, step_s: float = 1e-3, **changes: Any) -> Verdict:
    spec = build.spec(framework="tensorflow", strategy=strategy, step=CNN, payload_bytes=CNN_BYTES)
    ranks = 1 if strategy == "one_device" else 4
    case = build.case(framework="tensorflow", strategy=strategy, step=CNN, ranks=ranks)
    now = build.summary(median_s=step_s)
    return replace(build.verdict(spec=spec, case=case, now=now), **changes)


def _measured(verdict: Verdict, *copies: str, **changes: Any) -> tuple[Spec, Measurement]:
    trained = build.training_run(last_digests=dict.fromkeys(copies or ("all",), "d"), **changes)
    assert verdict.case is not None
    runs = (build.run(training=trained),)
    return verdict.spec, Measurement(case=verdict.case, runs=runs)


def test_each_has_a_line_beside_one_device() -> None:
    alone, mirrored = _verdict("one_device", 2e-3), _verdict("mirrored", 5e-3)
    measured = dict(
        (
            _measured(alone, epochs_s=(1.0, 0.02, 0.03, 0.04), accuracy=0.9),
            _measured(mirrored, "replica 0", "replica 1", epochs_s=(2.0, 0.05), accuracy=0.912),
        )
    )
    _, heading, _, _, *rows = shown(*strategy_tables([alone, mirrored], measured))
    assert heading.startswith("tensorflow, a small net trained under strategies, 10 steps an epoch")
    assert rows[0].split() == [
        *("one_device", "1", "2", "ms", "1.00", "30", "ms", "1", "s", "90.0", "-"),
    ]
    assert rows[1].split() == [
        *("mirrored", "4", "5", "ms", "2.50", "50", "ms", "2", "s", "91.2", "yes"),
    ]


def test_without_one_device_there_is_nothing_to_be_so_many_times_of() -> None:
    mirrored = _verdict("mirrored", 5e-3)
    row = shown(*strategy_tables([mirrored], dict((_measured(mirrored),))))[4]
    assert row.split()[:5] == ["mirrored", "4", "5", "ms", "100"]


def test_one_that_gave_no_time_has_no_line() -> None:
    failed = _verdict("mirrored", now=None)
    assert shown(*strategy_tables([failed], dict((_measured(failed),)))) == []


def test_in_the_table_strategies_share_a_group_and_are_named() -> None:
    verdicts = [_verdict("mirrored"), _verdict("central_storage")]
    lines = [line.text for line in verdict_lines(verdicts)]
    assert lines[1] == (
        "tensorflow training under strategies, steps of 143656 bytes of float32 gradient"
    )
    assert [line.split()[0] for line in lines[2:] if line.strip()] == [
        *("strategy", "us", "mirrored", "central_storage"),
    ]
    assert lines[4].index("1000.0") == lines[5].index("1000.0")
