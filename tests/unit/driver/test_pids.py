"""Limits of processes and threads, as control groups of both versions show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.driver import logs

ONE = "9:name=systemd:/a\n8:cpu,cpuacct:/other\n7:pids:/pod/job\n"
TWO = "0::/pod/job\n"


def machine(root: Path, groups: str, mount: str) -> Path:
    """Write the files of a group of 30 tasks, in one of 100 that refused once, in one of all."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    job = root / "sys/fs/cgroup" / mount / "pod/job"
    job.mkdir(parents=True)
    (job / "pids.max").write_text("30\n")
    (job / "pids.events").write_text("max 2\n")
    (job.parent / "pids.max").write_text("100\n")
    (job.parent / "pids.events").write_text("max 1\n")
    (job.parents[1] / "pids.max").write_text("max\n")
    return root


@pytest.mark.parametrize(("groups", "mount"), [(ONE, "pids"), (TWO, "")])
def test_limits_of_processes_and_refused_starts_are_read_from_nested_control_groups(
    tmp_path: Path, groups: str, mount: str
) -> None:
    root = machine(tmp_path, groups, mount)
    assert logs.refused_start_count(root) == 3
    assert logs.least_pids_limit(root) == 30


def test_the_limit_of_processes_of_a_container_is_read_from_its_only_visible_control_group(
    tmp_path: Path,
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/kubepods/pod1\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/pids.max").write_text("64\n")
    (tmp_path / "sys/fs/cgroup/pids.events").write_text("max 5\n")
    assert (logs.refused_start_count(tmp_path), logs.least_pids_limit(tmp_path)) == (5, 64)


def test_no_limit_of_processes_is_found_on_a_host_without_control_groups(tmp_path: Path) -> None:
    assert (logs.refused_start_count(tmp_path), logs.least_pids_limit(tmp_path)) == (0, None)
