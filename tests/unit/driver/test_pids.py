"""Limits of processes and threads, as control groups of both versions show them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.driver import logs

# A group of 30 tasks, in one of 100 that refused once, in one without a limit.
NESTED = {
    "pod/job/pids.max": "30\n",
    "pod/job/pids.events": "max 2\n",
    "pod/pids.max": "100\n",
    "pod/pids.events": "max 1\n",
    "pids.max": "max\n",
}


@pytest.mark.parametrize(
    ("groups", "mount", "files", "refused", "limit"),
    [
        ("9:name=systemd:/a\n8:cpu,cpuacct:/other\n7:pids:/pod/job\n", "pids", NESTED, 3, 30),
        ("0::/pod/job\n", "", NESTED, 3, 30),
        # A container sees only a single group.
        ("0::/kubepods/pod1\n", "", {"pids.max": "64\n", "pids.events": "max 5\n"}, 5, 64),
        ("", "", {}, 0, None),
    ],
    ids=["version 1", "version 2", "container", "no control groups"],
)
def test_limits_of_processes_and_refused_starts_are_read_from_control_groups(
    tmp_path: Path,
    groups: str,
    mount: str,
    files: Mapping[str, str],
    refused: int,
    limit: int | None,
) -> None:
    group_files = {f"sys/fs/cgroup/{mount}/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": groups, **group_files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert (logs.refused_start_count(tmp_path), logs.least_pids_limit(tmp_path)) == (refused, limit)
