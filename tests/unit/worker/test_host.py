"""The CPU quotas and GPUs of a host.

Quotas are read from simulated control groups of both versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model.words import DeviceClass
from busbw.worker import host
from busbw.worker.backends.base import MeasuringError
from tests.unit.worker.machine_files import make_machine, put
from tests.unit.worker.test_main import group


def _v1(folder: str, share_us: int) -> dict[str, str]:
    """Return the files of a control group of version 1."""
    return {f"{folder}/cpu.cfs_quota_us": str(share_us), f"{folder}/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("groups", "files", "quotas", "text"),
    [
        (
            "3:memory:/x\n1:cpu,cpuacct:/box/inner\n0::/",
            {**_v1("cpu/box/inner", -1), **_v1("cpu/box", 25_000)},
            {"cpu/box": (25_000, 100_000)},
            "0.25 CPU",
        ),
        # In a container the quota is that of the mounted group.
        ("1:cpu:/docker/0123abcd", _v1("cpu", 50_000), {"cpu": (50_000, 100_000)}, "0.5 CPU"),
        # The least of several is recorded.
        (
            "0::/pod/box",
            {"pod/cpu.max": "150000 100000", "pod/box/cpu.max": "100000 50000"},
            {"pod": (150_000, 100_000), "pod/box": (100_000, 50_000)},
            "1.5 CPU",
        ),
    ],
)
def test_cpu_quotas_of_control_groups_of_both_versions_are_read(
    tmp_path: Path,
    groups: str,
    files: dict[str, str],
    quotas: dict[str, tuple[int, int]],
    text: str,
) -> None:
    root = make_machine(tmp_path, groups=groups)
    mount = root / "sys/fs/cgroup"
    for path, content in files.items():
        put(mount / path, content)
    assert host.cpu_quotas(root) == {mount / path: quota for path, quota in quotas.items()}
    assert host.cpu_quota_flags(root) == {"CPU quota": text}


@pytest.mark.parametrize(
    "limit",
    ["max 100000", "", "25000", "25000 0", "-25000 100000", "a lot", f"{10**30} 100000"],
)
def test_an_absent_or_invalid_cpu_quota_is_left_out(tmp_path: Path, limit: str) -> None:
    root = make_machine(tmp_path, groups="0::/box")
    put(root / "sys/fs/cgroup/box/cpu.max", limit)
    assert (host.cpu_quotas(root), host.cpu_quota_flags(root)) == ({}, {})


@pytest.mark.parametrize("groups", ["nonsense", "0:", "\n\n", "0::/../../..", "0::/a:b", "x::"])
def test_a_host_with_missing_or_invalid_control_groups_has_no_cpu_quota(
    tmp_path: Path, groups: str
) -> None:
    root = make_machine(tmp_path, groups=groups)
    put(root / "sys/cpu.max", "25000 100000")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    assert host.cpu_quotas(root) == {}
    assert host.allocatable_bytes_now_and_at_most(None, root) is not None


def test_a_process_whose_host_lacks_its_gpu_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first, second = group(2, 0)
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "null"):
        (tmp_path / "dev" / name).touch()
    host.check_gpu_count(first, None, 1, tmp_path)
    with pytest.raises(MeasuringError, match="process 1 needs GPU 1, and its host has 1: expected"):
        host.check_gpu_count(second, None, 1, tmp_path)
    host.check_gpu_count(second, DeviceClass.CPU, 1, tmp_path)
    host.check_gpu_count(group(2, 1)[1], DeviceClass.GPU, 1, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    host.check_gpu_count(second, DeviceClass.GPU, 1, tmp_path)
