"""How much memory is left, read from simulated files of /proc and of control groups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.worker import memory
from busbw.worker.memory import Headroom
from tests.unit.worker.machine_files import make_machine, put

GIB = 2**30


def _group_v2(folder: Path, *, limit: int | None, used: int, cache: int = 0) -> None:
    """Write a control group of version 2; sizes are in GiB."""
    put(folder / "memory.max", "max" if limit is None else limit * GIB)
    put(folder / "memory.current", used * GIB)
    put(folder / "memory.stat", f"anon 1\nfile 2\ninactive_file {cache * GIB}")


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
def test_without_control_groups_the_headroom_is_that_of_the_machine_less_a_twentieth(
    tmp_path: Path, limit: int | None, left: tuple[int, int]
) -> None:
    assert _gib(*left) == memory.headroom(limit, make_machine(tmp_path))


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
def test_a_control_group_of_version_2_limits_the_headroom(
    tmp_path: Path, group: dict[str, int], left: tuple[int, int]
) -> None:
    root = make_machine(tmp_path, groups="0::/box")
    _group_v2(root / "sys/fs/cgroup/box", **{"limit": 40, **group})
    assert _gib(*left) == memory.headroom(None, root)


@pytest.mark.parametrize(
    ("inner", "outer", "left"),
    [
        # Without a limit of its own it has that of the one above.
        ({"limit": None, "used": 1}, {"limit": 20, "used": 5}, (20 - 5 - 1, 20 - 2 - 1)),
        # The one with the least left holds.
        ({"limit": 40, "used": 1}, {"limit": 60, "used": 50}, (60 - 50 - 2, 40 - 2 - 2)),
    ],
)
def test_the_tightest_of_nested_groups_limits_the_headroom(
    tmp_path: Path, inner: dict[str, Any], outer: dict[str, Any], left: tuple[int, int]
) -> None:
    root = make_machine(tmp_path, groups="0::/outer/inner")
    _group_v2(root / "sys/fs/cgroup/outer/inner", **inner)
    _group_v2(root / "sys/fs/cgroup/outer", **outer)
    assert _gib(*left) == memory.headroom(None, root)


def test_the_root_group_of_a_container_limits_the_headroom(tmp_path: Path) -> None:
    root = make_machine(tmp_path, groups="0::/")
    _group_v2(root / "sys/fs/cgroup", limit=20, used=5)
    assert _gib(14, 17) == memory.headroom(None, root)


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
def test_a_control_group_of_version_1_limits_the_headroom(
    tmp_path: Path, groups: str, folder: str, limit: int, cache: int, left: tuple[int, int]
) -> None:
    root = make_machine(tmp_path, groups=groups)
    group = root / "sys/fs/cgroup/memory" / folder
    put(group / "memory.limit_in_bytes", limit)
    put(group / "memory.usage_in_bytes", 5 * GIB)
    put(group / "memory.stat", f"cache 9\ntotal_inactive_file {cache * GIB}")
    assert _gib(*left) == memory.headroom(None, root)


def test_a_group_above_the_mount_is_never_looked_at(tmp_path: Path) -> None:
    root = make_machine(tmp_path, groups="0::/box")
    (root / "sys/fs/cgroup/box").mkdir(parents=True)
    _group_v2(root / "sys/fs", limit=1, used=0)
    assert _gib(55, 93) == memory.headroom(None, root)


@pytest.mark.parametrize("missing", ["proc/meminfo", "proc/self/status"])
def test_without_proc_files_nothing_is_predicted(tmp_path: Path, missing: str) -> None:
    root = make_machine(tmp_path)
    (root / missing).unlink()
    assert memory.headroom(None, root) is None
    assert memory.headroom(GIB, root) is None


def test_the_resident_size_and_its_peak_are_read_from_proc(tmp_path: Path) -> None:
    root = make_machine(tmp_path, resident_gib=3)
    assert (memory.resident_bytes(root), memory.peak_bytes(root)) == (3 * GIB, 4 * GIB)
    assert memory.minimum_limit_bytes(root) == int(3 * GIB / 0.95)
    nothing = root / "nothing"
    assert (memory.resident_bytes(nothing), memory.peak_bytes(nothing)) == (None, None)
    assert memory.minimum_limit_bytes(nothing) is None


_LIMITED = """
import resource
from busbw.worker import memory
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
before = memory.resident_bytes()
memory.touch_fresh(2**31, 2)
memory.touch_fresh(2**20, 2)
assert abs(memory.resident_bytes() - before) < 2**23
"""


def test_touched_memory_is_freed_and_more_than_there_is_is_not_touched() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
