"""The header and the tables of a session on a terminal."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from busbw.model.machine import Environment
from busbw.model.words import Device
from busbw.report.session import (
    baseline_text,
    header_lines,
    written_baseline_tables,
)
from busbw.report.table import Table, render
from tests.helpers import build

FOLDER = PurePosixPath("amd-epyc-2c/4r")


def _header(
    environment: Environment | None = None, root: Path = Path("gone"), **unreached: str
) -> list[str]:
    return list(header_lines(environment or build.environment(), root, unreached))


def _on_tpu(**key: Any) -> Environment:
    tpu = build.key(device_kind="TPU v5 lite", cores=None, **key)
    return build.environment(device=Device.TPU, key=tpu)


@pytest.mark.parametrize(
    ("device", "cores", "text"),
    [
        (Device.CPU, 2, "(CPU, 2 cores, quota 0.25 CPU), "),
        (Device.GPU, None, "(GPU, quota 0.25 CPU), "),
    ],
)
def test_the_header_of_a_session_names_a_cpu_quota_for_any_device(
    device: Device, cores: int | None, text: str
) -> None:
    flags = {"CPU quota": "0.25 CPU"}
    environment = build.environment(device=device, key=build.key(cores=cores), flags=flags)
    assert text in _header(environment)[0]


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
def test_the_header_of_a_session_on_a_tpu_names_its_ranks_and_its_mesh_and_its_hosts(
    key: dict[str, Any], shape: str
) -> None:
    assert f"busbw device: TPU v5 lite (TPU), {shape}" in _header(_on_tpu(**key))[0]


def text_lines(*tables: Table) -> list[str]:
    """Return the lines that a terminal shows."""
    return render("text", *tables)


def test_the_tables_of_changed_baselines_list_old_and_new_times_by_file() -> None:
    case = build.case(payload_bytes=2**20)
    changes = [
        ("a.json", None, build.baseline(1e-3, 2e-3, 3e-3), "NO_BASELINE"),
        ("a.json", build.baseline(1e-3), build.baseline(), ""),
        ("b.json", build.baseline(), build.baseline(1e-3), ""),
    ]
    rows = [
        (Path(path), case, baseline_text(case, before), baseline_text(case, after), reason)
        for path, before, after, reason in changes
    ]
    lines = text_lines(*written_baseline_tables(rows))
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
