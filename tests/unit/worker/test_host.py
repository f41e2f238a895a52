"""CPU quotas, read from simulated control groups of both versions and from the kernel's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.model.counters import Quota
from busbw.worker import host, memory
from tests.unit.worker.machine_files import make_machine, put


def _quota_v1(folder: Path, share_us: int, *, throttled: int = 0, nanoseconds: int = 0) -> None:
    put(folder / "cpu.cfs_quota_us", share_us)
    put(folder / "cpu.cfs_period_us", 100_000)
    counts = f"nr_periods 1200\nnr_throttled {throttled}\nthrottled_time {nanoseconds}"
    put(folder / "cpu.stat", f"{counts}\nnr_bursts 0\nburst_time 0")


def _quota_v2(folder: Path, limit: str, counts: str) -> None:
    put(folder / "cpu.max", limit)
    put(folder / "cpu.stat", f"usage_usec 5\nuser_usec 3\n{counts}")


def test_a_cpu_quota_of_version_1_is_read_with_its_counts(tmp_path: Path) -> None:
    root = make_machine(tmp_path, groups="3:memory:/x\n1:cpu,cpuacct:/box/inner\n0::/")
    group = root / "sys/fs/cgroup/cpu/box"
    _quota_v1(group / "inner", -1)
    _quota_v1(group, 25_000, throttled=677, nanoseconds=12_300_000_000)
    quota = Quota(cpus=0.25, period_s=0.1, periods=1200, throttled_periods=677, throttled_s=12.3)
    assert host.quotas(root) == {str(group): quota}
    assert host.quota_flags(root) == {"CPU quota": "0.25 CPU"}


def test_of_cpu_quotas_of_version_2_the_least_is_recorded_and_each_is_counted(
    tmp_path: Path,
) -> None:
    root = make_machine(tmp_path, groups="0::/pod/box")
    pod, box = root / "sys/fs/cgroup/pod", root / "sys/fs/cgroup/pod/box"
    _quota_v2(pod, "150000 100000", "nr_periods 4\nnr_throttled 1\nthrottled_usec 20000")
    _quota_v2(box, "100000 50000", "nr_periods 9\nnr_throttled 3\nthrottled_usec 70000")
    quotas = host.quotas(root)
    assert {folder: (quota.cpus, quota.throttled_s) for folder, quota in quotas.items()} == {
        str(pod): (1.5, 0.02),
        str(box): (2.0, 0.07),
    }
    assert host.quota_flags(root) == {"CPU quota": "1.5 CPU"}


@pytest.mark.parametrize(
    ("limit", "counts"),
    [
        ("max 100000", "nr_periods 1"),
        ("", "nr_periods 1"),
        ("25000", "nr_periods 1"),
        ("25000 0", "nr_periods 1"),
        ("-25000 100000", "nr_periods 1"),
        ("a lot", "nr_periods 1"),
        ("25000 100000", "nr_periods many"),
        ("25000 100000", f"nr_periods {10**30}"),
        (f"{10**30} 100000", "nr_periods 1"),
        ("25000 100000", "nr_periods"),
    ],
)
def test_an_absent_or_unreadable_cpu_quota_is_left_out(
    tmp_path: Path, limit: str, counts: str
) -> None:
    root = make_machine(tmp_path, groups="0::/box")
    _quota_v2(root / "sys/fs/cgroup/box", limit, counts)
    assert (host.quotas(root), host.quota_flags(root)) == ({}, {})


@pytest.mark.parametrize("groups", ["nonsense", "0:", "\n\n", "0::/../../..", "0::/a:b", "x::"])
def test_missing_control_groups_have_no_quota(tmp_path: Path, groups: str) -> None:
    root = make_machine(tmp_path, groups=groups)
    _quota_v2(root / "sys", "25000 100000", "nr_periods 1")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    assert host.quotas(root) == {}
    assert memory.headroom(None, root) is not None


# Joins the group, uses up its share of some periods, and says how often it was stopped.
_STOPPED = """
import os, sys, time
from pathlib import Path
from busbw.worker import host
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
before = host.quotas()[sys.argv[1]]
while time.process_time() < 1 and host.quotas()[sys.argv[1]].since(before).throttled_periods < 2:
    sum(range(10_000))
quota = host.quotas()[sys.argv[1]].since(before)
print(quota.cpus, quota.is_throttled, quota.periods >= quota.throttled_periods >= 2)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a control group of this machine with a quota of a twentieth of a processor."""
    for mount, files in (
        ("/sys/fs/cgroup/cpu", {"cpu.cfs_quota_us": "5000"}),
        ("/sys/fs/cgroup", {"cpu.max": "5000 100000"}),
    ):
        folder = Path(mount, f"busbw-test-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if all((folder / name).exists() for name in files):
                for name, text in files.items():
                    (folder / name).write_text(text)
                yield folder
                return
        finally:
            folder.rmdir()
    pytest.skip("no control group can be made here")


def test_the_kernel_s_own_counts_are_read(group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STOPPED, str(group)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0.05 True True\n", "")


def test_in_a_container_the_quota_is_that_of_the_mounted_group(tmp_path: Path) -> None:
    root = make_machine(tmp_path, groups="1:cpu:/docker/0123abcd")
    _quota_v1(root / "sys/fs/cgroup/cpu", 50_000)
    assert host.quota_flags(root) == {"CPU quota": "0.5 CPU"}
