"""What memory is left, read from synthetic /proc and control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.worker import host
from busbw.worker.host import Headroom

GIB = 2**30
KIB_OF_GIB = 2**20


def _put(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def _machine(root: Path, *, total: int = 100, available: int = 60, own: int = 2) -> Path:
    """A machine without control groups; sizes in GiB."""
    _put(
        root / "proc/meminfo",
        f"MemTotal:       {total * KIB_OF_GIB} kB\nMemFree:        1024 kB\n"
        f"MemAvailable:   {available * KIB_OF_GIB} kB\nHugePages_Total:       0",
    )
    _put(
        root / "proc/self/status",
        f"Name:\tpython\nVmHWM:\t {(own + 1) * KIB_OF_GIB} kB\nVmRSS:\t {own * KIB_OF_GIB} kB",
    )
    return root


def _group_v2(folder: Path, *, limit: int | str, used: int, cache: int = 0) -> None:
    _put(folder / "memory.max", limit)
    _put(folder / "memory.current", used)
    _put(folder / "memory.stat", f"anon 1\nfile 2\ninactive_file {cache}")


def _group_v1(folder: Path, *, limit: int, used: int, cache: int = 0) -> None:
    _put(folder / "memory.limit_in_bytes", limit)
    _put(folder / "memory.usage_in_bytes", used)
    _put(folder / "memory.stat", f"cache 9\ntotal_inactive_file {cache}")


def _boxed(root: Path, *, used: int, cache: int = 0, limit: int = 40) -> Path:
    """The machine with this process in a control group of version 2; sizes in GiB."""
    _put(_machine(root) / "proc/self/cgroup", "0::/box")
    box = root / "sys/fs/cgroup/box"
    _group_v2(box, limit=limit * GIB, used=used * GIB, cache=cache * GIB)
    return root


def _nested(root: Path) -> tuple[Path, Path]:
    """The outer and the inner group of this process, of version 2."""
    _put(_machine(root) / "proc/self/cgroup", "0::/outer/inner")
    return root / "sys/fs/cgroup/outer", root / "sys/fs/cgroup/outer/inner"


def _gib(available: float, capacity: float) -> Headroom:
    return Headroom(available_bytes=int(available * GIB), capacity_bytes=int(capacity * GIB))


def test_without_control_groups_it_is_the_machines_less_a_twentieth(tmp_path: Path) -> None:
    # 60 available - 5 reserve; 100 in all - 2 of our own - 5 reserve
    assert _gib(55, 93) == host.headroom(None, _machine(tmp_path))


def test_a_limit_acts_as_a_machine_of_that_size(tmp_path: Path) -> None:
    # 20 - 2 of our own - 1 reserve
    assert _gib(17, 17) == host.headroom(20 * GIB, _machine(tmp_path))


def test_a_limit_above_what_is_free_changes_nothing(tmp_path: Path) -> None:
    assert _gib(55, 93) == host.headroom(1000 * GIB, _machine(tmp_path))


def test_nothing_left_is_zero_and_never_less(tmp_path: Path) -> None:
    assert _gib(0, 0) == host.headroom(GIB, _machine(tmp_path))


def test_a_control_group_of_version_2_limits_it(tmp_path: Path) -> None:
    root = _boxed(tmp_path, used=10)
    assert _gib(40 - 10 - 2, 40 - 2 - 2) == host.headroom(None, root)


def test_cache_that_the_kernel_would_give_back_is_not_in_use(tmp_path: Path) -> None:
    root = _boxed(tmp_path, used=10, cache=4)
    assert _gib(40 - 6 - 2, 36) == host.headroom(None, root)


def test_a_group_without_a_limit_of_its_own_has_that_of_the_one_above(tmp_path: Path) -> None:
    outer, inner = _nested(tmp_path)
    _group_v2(inner, limit="max", used=1)
    _group_v2(outer, limit=20 * GIB, used=5 * GIB)
    assert _gib(20 - 5 - 1, 20 - 2 - 1) == host.headroom(None, tmp_path)


def test_of_nested_limits_the_one_with_the_least_left_holds(tmp_path: Path) -> None:
    outer, inner = _nested(tmp_path)
    _group_v2(inner, limit=40 * GIB, used=1 * GIB)
    _group_v2(outer, limit=60 * GIB, used=50 * GIB)
    assert _gib(60 - 50 - 2, 40 - 2 - 2) == host.headroom(None, tmp_path)


def test_the_root_group_of_a_container_limits_it(tmp_path: Path) -> None:
    root = _machine(tmp_path)
    _put(root / "proc/self/cgroup", "0::/")
    _group_v2(root / "sys/fs/cgroup", limit=20 * GIB, used=5 * GIB)
    assert _gib(14, 17) == host.headroom(None, root)


def test_a_control_group_of_version_1_limits_it(tmp_path: Path) -> None:
    root = _machine(tmp_path)
    _put(root / "proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/box\n1:name=systemd:/")
    _group_v1(root / "sys/fs/cgroup/memory/box", limit=20 * GIB, used=5 * GIB, cache=GIB)
    assert _gib(20 - 4 - 1, 17) == host.headroom(None, root)


def test_in_a_container_of_version_1_the_group_is_mounted_as_the_root(tmp_path: Path) -> None:
    root = _machine(tmp_path)
    _put(root / "proc/self/cgroup", "4:memory:/docker/0123abcd")
    _group_v1(root / "sys/fs/cgroup/memory", limit=20 * GIB, used=5 * GIB)
    assert _gib(14, 17) == host.headroom(None, root)


def test_version_1_without_a_limit_is_the_machine(tmp_path: Path) -> None:
    root = _machine(tmp_path)
    _put(root / "proc/self/cgroup", "4:memory:/")
    _group_v1(root / "sys/fs/cgroup/memory", limit=9223372036854771712, used=5 * GIB)
    assert _gib(55, 93) == host.headroom(None, root)


def test_a_group_above_the_mount_is_never_looked_at(tmp_path: Path) -> None:
    root = _machine(tmp_path)
    _put(root / "proc/self/cgroup", "0::/box")
    (root / "sys/fs/cgroup/box").mkdir(parents=True)
    _group_v2(root / "sys/fs", limit=GIB, used=0)
    assert _gib(55, 93) == host.headroom(None, root)


def test_a_group_that_uses_more_than_its_limit_leaves_nothing(tmp_path: Path) -> None:
    root = _boxed(tmp_path, limit=20, used=30)
    assert _gib(0, 17) == host.headroom(None, root)


@pytest.mark.parametrize("missing", ["proc/meminfo", "proc/self/status"])
def test_where_the_system_does_not_tell_nothing_is_predicted(tmp_path: Path, missing: str) -> None:
    root = _machine(tmp_path)
    (root / missing).unlink()
    assert host.headroom(None, root) is None
    assert host.headroom(GIB, root) is None


def test_the_resident_size_and_its_peak_are_those_of_this_process(tmp_path: Path) -> None:
    root = _machine(tmp_path, own=3)
    assert (host.resident_bytes(root), host.peak_bytes(root)) == (3 * GIB, 4 * GIB)
    least_bytes = host.least_limit_bytes(root)
    assert least_bytes == int(3 * GIB / 0.95)


def test_without_proc_there_is_no_size_and_no_peak(tmp_path: Path) -> None:
    assert (host.resident_bytes(tmp_path), host.peak_bytes(tmp_path)) == (None, None)
    assert host.least_limit_bytes(tmp_path) is None
