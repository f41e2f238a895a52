"""What memory is left, read from synthetic /proc and control groups of both versions."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.model.counters import Quota
from busbw.worker import host
from busbw.worker.host import Headroom

GIB = 2**30
KIB_OF_GIB = 2**20


def _put(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def _machine(root: Path, *, own: int = 2, groups: str = "") -> Path:
    """A machine of 100 GiB, of which 60 are free, with this process in control `groups`."""
    _put(
        root / "proc/meminfo",
        f"MemTotal:       {100 * KIB_OF_GIB} kB\nMemFree:        1024 kB\n"
        f"MemAvailable:   {60 * KIB_OF_GIB} kB\nHugePages_Total:       0",
    )
    _put(
        root / "proc/self/status",
        f"Name:\tpython\nVmHWM:\t {(own + 1) * KIB_OF_GIB} kB\nVmRSS:\t {own * KIB_OF_GIB} kB",
    )
    if groups:
        _put(root / "proc/self/cgroup", groups)
    return root


def _group_v2(folder: Path, *, limit: int | None, used: int, cache: int = 0) -> None:
    """A control group of version 2; sizes in GiB."""
    _put(folder / "memory.max", "max" if limit is None else limit * GIB)
    _put(folder / "memory.current", used * GIB)
    _put(folder / "memory.stat", f"anon 1\nfile 2\ninactive_file {cache * GIB}")


def _gib(available: float, capacity: float) -> Headroom:
    return Headroom(available_bytes=int(available * GIB), capacity_bytes=int(capacity * GIB))


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        # 60 available - 5 reserve; 100 in all - 2 of our own - 5 reserve
        (None, (55, 93)),
        # As a machine of that size: 20 - 2 of our own - 1 reserve
        (20 * GIB, (17, 17)),
        # Above what is free it changes nothing.
        (1000 * GIB, (55, 93)),
        # Nothing left is zero and never less.
        (GIB, (0, 0)),
    ],
)
def test_without_control_groups_it_is_the_machines_less_a_twentieth(
    tmp_path: Path, limit: int | None, left: tuple[int, int]
) -> None:
    assert _gib(*left) == host.headroom(limit, _machine(tmp_path))


@pytest.mark.parametrize(
    ("group", "left"),
    [
        ({"used": 10}, (40 - 10 - 2, 40 - 2 - 2)),
        # Cache that the kernel would give back is not in use.
        ({"used": 10, "cache": 4}, (40 - 6 - 2, 36)),
        ({"used": 2, "cache": 4}, (40 - 0 - 2, 36)),
        ({"limit": 20, "used": 30}, (0, 17)),
    ],
)
def test_a_control_group_of_version_2_limits_it(
    tmp_path: Path, group: dict[str, int], left: tuple[int, int]
) -> None:
    root = _machine(tmp_path, groups="0::/box")
    _group_v2(root / "sys/fs/cgroup/box", **{"limit": 40, **group})
    assert _gib(*left) == host.headroom(None, root)


@pytest.mark.parametrize(
    ("inner", "outer", "left"),
    [
        # Without a limit of its own it has that of the one above.
        ({"limit": None, "used": 1}, {"limit": 20, "used": 5}, (20 - 5 - 1, 20 - 2 - 1)),
        # The one with the least left holds.
        ({"limit": 40, "used": 1}, {"limit": 60, "used": 50}, (60 - 50 - 2, 40 - 2 - 2)),
    ],
)
def test_of_nested_groups_the_tightest_holds(
    tmp_path: Path, inner: dict[str, Any], outer: dict[str, Any], left: tuple[int, int]
) -> None:
    root = _machine(tmp_path, groups="0::/outer/inner")
    _group_v2(root / "sys/fs/cgroup/outer/inner", **inner)
    _group_v2(root / "sys/fs/cgroup/outer", **outer)
    assert _gib(*left) == host.headroom(None, root)


def test_the_root_group_of_a_container_limits_it(tmp_path: Path) -> None:
    root = _machine(tmp_path, groups="0::/")
    _group_v2(root / "sys/fs/cgroup", limit=20, used=5)
    assert _gib(14, 17) == host.headroom(None, root)


UNLIMITED = 9223372036854771712


@pytest.mark.parametrize(
    ("groups", "folder", "limit", "cache", "left"),
    [
        ("5:cpu,cpuacct:/other\n4:memory:/box\n1:name=systemd:/", "box", 20 * GIB, 1, (15, 17)),
        # In a container the group is mounted as the root.
        ("4:memory:/docker/0123abcd", "", 20 * GIB, 0, (14, 17)),
        ("4:memory:/", "", UNLIMITED, 0, (55, 93)),
    ],
)
def test_a_control_group_of_version_1_limits_it(
    tmp_path: Path, groups: str, folder: str, limit: int, cache: int, left: tuple[int, int]
) -> None:
    root = _machine(tmp_path, groups=groups)
    group = root / "sys/fs/cgroup/memory" / folder
    _put(group / "memory.limit_in_bytes", limit)
    _put(group / "memory.usage_in_bytes", 5 * GIB)
    _put(group / "memory.stat", f"cache 9\ntotal_inactive_file {cache * GIB}")
    assert _gib(*left) == host.headroom(None, root)


def _quota_v1(folder: Path, share_us: int, *, throttled: int = 0, nanoseconds: int = 0) -> None:
    _put(folder / "cpu.cfs_quota_us", share_us)
    _put(folder / "cpu.cfs_period_us", 100_000)
    counts = f"nr_periods 1200\nnr_throttled {throttled}\nthrottled_time {nanoseconds}"
    _put(folder / "cpu.stat", f"{counts}\nnr_bursts 0\nburst_time 0")


def _quota_v2(folder: Path, limit: str, counts: str) -> None:
    _put(folder / "cpu.max", limit)
    _put(folder / "cpu.stat", f"usage_usec 5\nuser_usec 3\n{counts}")


def test_a_cpu_quota_of_version_1_is_read_with_its_counts(tmp_path: Path) -> None:
    root = _machine(tmp_path, groups="3:memory:/x\n1:cpu,cpuacct:/box/inner\n0::/")
    group = root / "sys/fs/cgroup/cpu/box"
    _quota_v1(group / "inner", -1)
    _quota_v1(group, 25_000, throttled=677, nanoseconds=12_300_000_000)
    quota = Quota(cpus=0.25, period_s=0.1, periods=1200, throttled_periods=677, throttled_s=12.3)
    assert host.quotas(root) == {str(group): quota}
    assert host.quota_flags(root) == {"CPU quota": "0.25 CPU"}


def test_of_cpu_quotas_of_version_2_the_least_is_recorded_and_each_is_counted(
    tmp_path: Path,
) -> None:
    root = _machine(tmp_path, groups="0::/pod/box")
    pod, box = root / "sys/fs/cgroup/pod", root / "sys/fs/cgroup/pod/box"
    _quota_v2(pod, "150000 100000", "nr_periods 4\nnr_throttled 1\nthrottled_usec 20000")
    _quota_v2(box, "100000 50000", "nr_periods 9\nnr_throttled 3\nthrottled_usec 70000")
    found = host.quotas(root)
    assert {folder: (one.cpus, one.throttled_s) for folder, one in found.items()} == {
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
def test_without_a_cpu_quota_or_a_readable_one_there_is_none(
    tmp_path: Path, limit: str, counts: str
) -> None:
    root = _machine(tmp_path, groups="0::/box")
    _quota_v2(root / "sys/fs/cgroup/box", limit, counts)
    assert (host.quotas(root), host.quota_flags(root)) == ({}, {})


@pytest.mark.parametrize("groups", ["nonsense", "0:", "\n\n", "0::/../../..", "0::/a:b", "x::"])
def test_groups_that_are_not_there_have_no_quota(tmp_path: Path, groups: str) -> None:
    root = _machine(tmp_path, groups=groups)
    _quota_v2(root / "sys", "25000 100000", "nr_periods 1")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    assert host.quotas(root) == {}
    assert host.headroom(None, root) is not None


# Joins the group, uses up its share of some periods, and says how often it was stopped.
_STOPPED = """
import os, sys, time
from pathlib import Path
from busbw.worker import host
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
before = host.quotas()[sys.argv[1]]
while time.process_time() < 1 and host.quotas()[sys.argv[1]].since(before).throttled_periods < 2:
    sum(range(10_000))
found = host.quotas()[sys.argv[1]].since(before)
print(found.cpus, found.is_throttled, found.periods >= found.throttled_periods >= 2)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of this machine with a quota of a twentieth of a processor."""
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
    root = _machine(tmp_path, groups="1:cpu:/docker/0123abcd")
    _quota_v1(root / "sys/fs/cgroup/cpu", 50_000)
    assert host.quota_flags(root) == {"CPU quota": "0.5 CPU"}


def test_a_group_above_the_mount_is_never_looked_at(tmp_path: Path) -> None:
    root = _machine(tmp_path, groups="0::/box")
    (root / "sys/fs/cgroup/box").mkdir(parents=True)
    _group_v2(root / "sys/fs", limit=1, used=0)
    assert _gib(55, 93) == host.headroom(None, root)


@pytest.mark.parametrize("missing", ["proc/meminfo", "proc/self/status"])
def test_where_the_system_does_not_tell_nothing_is_predicted(tmp_path: Path, missing: str) -> None:
    root = _machine(tmp_path)
    (root / missing).unlink()
    assert host.headroom(None, root) is None
    assert host.headroom(GIB, root) is None


def test_the_resident_size_and_its_peak_are_those_of_this_process(tmp_path: Path) -> None:
    root = _machine(tmp_path, own=3)
    assert (host.resident_bytes(root), host.peak_bytes(root)) == (3 * GIB, 4 * GIB)
    assert host.least_limit_bytes(root) == int(3 * GIB / 0.95)
    nothing = root / "nothing"
    assert (host.resident_bytes(nothing), host.peak_bytes(nothing)) == (None, None)
    assert host.least_limit_bytes(nothing) is None


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_memory_is_touched_to_its_last_byte_and_not_beyond(threads: int) -> None:
    memory = (ctypes.c_char * 1000)()
    host.touch(ctypes.addressof(memory), 999, threads)
    assert bytes(memory) == 999 * b"\x01" + b"\x00"


_LIMITED = """
import resource
from busbw.model.counters import Quota
from busbw.worker import host
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
before = host.resident_bytes()
host.prefault(2**31, 2)
host.prefault(2**20, 2)
assert abs(host.resident_bytes() - before) < 2**23
"""


def test_the_heap_keeps_small_blocks_and_gives_large_ones_back() -> None:
    blocks = [bytearray(1000) for _ in range(10_000)]
    before = host.kept_by_heap_bytes(1000)
    del blocks[::2]
    assert host.kept_by_heap_bytes(1000) > before + 4_000_000
    assert host.kept_by_heap_bytes(2**26) == 0


def test_nothing_is_kept_and_where_there_is_less_nothing_is_touched() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
