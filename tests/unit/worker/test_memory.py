"""The free memory, read from simulated files of /proc and of control groups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from busbw.worker import host
from tests.unit.worker.machine_files import make_machine, put

GIB = 2**30


def _v2(limit_gib: int | None, used_gib: int, cache_gib: int = 0) -> dict[str, str]:
    """Return the files of a control group of version 2."""
    return {
        "memory.max": "max" if limit_gib is None else str(limit_gib * GIB),
        "memory.current": str(used_gib * GIB),
        "memory.stat": f"anon 1\nfile 2\ninactive_file {cache_gib * GIB}",
    }


def _v1(limit_bytes: int, cache_gib: int = 0) -> dict[str, str]:
    """Return the files of a control group of version 1 that uses 5 GiB."""
    return {
        "memory.limit_in_bytes": str(limit_bytes),
        "memory.usage_in_bytes": str(5 * GIB),
        "memory.stat": f"cache 9\ntotal_inactive_file {cache_gib * GIB}",
    }


def _gib(available: float, capacity: float) -> tuple[int, int]:
    return int(available * GIB), int(capacity * GIB)


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
def test_the_free_memory_without_control_groups_is_the_memory_of_the_machine_less_a_twentieth(
    tmp_path: Path, limit: int | None, left: tuple[int, int]
) -> None:
    assert _gib(*left) == host.allocatable_bytes_now_and_at_most(limit, make_machine(tmp_path))


UNLIMITED = 9223372036854771712
V1 = "5:cpu,cpuacct:/other\n4:memory:/box\n1:name=systemd:/"


@pytest.mark.parametrize(
    ("groups", "files_of_groups", "left"),
    [
        ("0::/box", {"box": _v2(40, used_gib=10)}, (40 - 10 - 2, 40 - 2 - 2)),
        # Cache that the kernel would give back is not in use.
        ("0::/box", {"box": _v2(40, used_gib=10, cache_gib=4)}, (40 - 6 - 2, 36)),
        ("0::/box", {"box": _v2(40, used_gib=2, cache_gib=4)}, (40 - 0 - 2, 36)),
        ("0::/box", {"box": _v2(20, used_gib=30)}, (0, 17)),
        # Without a limit of its own it has that of the one above.
        (
            "0::/outer/inner",
            {"outer/inner": _v2(None, used_gib=1), "outer": _v2(20, used_gib=5)},
            (20 - 5 - 1, 20 - 2 - 1),
        ),
        # The one with the least left holds.
        (
            "0::/outer/inner",
            {"outer/inner": _v2(40, used_gib=1), "outer": _v2(60, used_gib=50)},
            (60 - 50 - 2, 40 - 2 - 2),
        ),
        # In a container the group is mounted as the root.
        ("0::/", {"": _v2(20, used_gib=5)}, (14, 17)),
        ("4:memory:/docker/0123abcd", {"memory": _v1(20 * GIB)}, (14, 17)),
        (V1, {"memory/box": _v1(20 * GIB, cache_gib=1)}, (15, 17)),
        ("4:memory:/", {"memory": _v1(UNLIMITED)}, (55, 93)),
        # A group above the mount is never looked at.
        ("0::/box", {"box": {}, "..": _v2(1, used_gib=0)}, (55, 93)),
    ],
)
def test_control_groups_of_both_versions_limit_the_free_memory(
    tmp_path: Path,
    groups: str,
    files_of_groups: dict[str, dict[str, str]],
    left: tuple[int, int],
) -> None:
    root = make_machine(tmp_path, groups=groups)
    for folder, files in files_of_groups.items():
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            put(root / "sys/fs/cgroup" / folder / name, text)
    assert _gib(*left) == host.allocatable_bytes_now_and_at_most(None, root)


def test_the_resident_memory_of_a_worker_and_its_peak_are_read_from_proc(tmp_path: Path) -> None:
    root = make_machine(tmp_path, resident_gib=3)
    assert (host.resident_bytes(root), host.peak_resident_bytes(root)) == (3 * GIB, 4 * GIB)


_LIMITED = """
import resource
import numpy
from busbw.worker import host
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
before = host.resident_bytes()
host.touch_fresh_memory(2**31, 2)
host.touch_fresh_memory(2**20, 2)
assert abs(host.resident_bytes() - before) < 2**23
"""


def test_touching_more_memory_than_available_causes_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
