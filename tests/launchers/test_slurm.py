"""Slurm: tasks of a step, and environments that only look like one."""

from __future__ import annotations

import itertools

import pytest

from busbw.launchers.base import LauncherError
from busbw.launchers.slurm import launched, nodes

# What srun sets for a task, of which most is not read.
TASK = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOBID": "4711",
    "SLURM_JOB_NODELIST": "n[01-04]",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.9",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_NPROCS": "2",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_STEP_ID": "3",
    "SLURM_STEP_NODELIST": "n[02-03]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_TASKS_PER_NODE": "1(x4)",
    "SLURMD_NODENAME": "n03",
}
# The script of `sbatch`, before any srun.
SCRIPT = {name: text for name, text in TASK.items() if not name.startswith("SLURM_STEP_")} | {
    "SLURM_PROCID": "0",
    "SLURMD_NODENAME": "n01",
}


def test_a_task_has_its_rank_and_the_first_node_of_its_step() -> None:
    found = launched(TASK)
    assert found is not None
    assert (found.rank, found.count, found.host, found.job) == (1, 2, "n02", "4711.3")
    assert not found.one_host


def test_the_script_of_sbatch_is_no_task() -> None:
    assert launched(SCRIPT) is None


def test_tasks_of_one_node_are_on_one_host() -> None:
    found = launched({**TASK, "SLURM_STEP_NODELIST": "n02"})
    assert found is not None and found.one_host


def test_another_step_of_a_job_is_another_start() -> None:
    jobs = [launched({**TASK, "SLURM_STEP_ID": step}) for step in ("3", "4")]
    assert len({one.job for one in jobs if one}) == 2


def test_rank_0_on_another_node_than_the_first_is_not_named() -> None:
    found = launched({**TASK, "SLURM_PROCID": "0"})
    assert found is not None and found.host == ""
    assert found.unnamed == "rank 0 is on n03, and not on the first node of the step, n02"
    found = launched({**TASK, "SLURM_PROCID": "0", "SLURMD_NODENAME": "n02"})
    assert found is not None and (found.host, found.unnamed) == ("n02", "")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n1", ["n1"]),
        ("n[01-04,7],m3", ["n01", "n02", "n03", "n04", "n7", "m3"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("rack[1-2]-n[1-2]", ["rack1-n1", "rack1-n2", "rack2-n1", "rack2-n2"]),
        ("a[3]b,gpu-node.example", ["a3b", "gpu-node.example"]),
    ],
)
def test_a_list_of_nodes_is_expanded_in_order(text: str, wanted: list[str]) -> None:
    assert list(nodes(text)) == wanted


def test_a_long_list_is_not_made_to_find_its_first_node() -> None:
    assert next(nodes("n[000000000-999999999]")) == "n000000000"
    assert list(itertools.islice(nodes("n[1-999999999]m[1-999999999]"), 2)) == ["n1m1", "n1m2"]


@pytest.mark.parametrize("text", [",", "n1,", "n[1-", "n[]", "n[a-b]", "n[1-2", "n]", "n[1[2]]"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(LauncherError, match="is no list of nodes; accepted are lists such as"):
        list(nodes(text))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("SLURM_PROCID", "2", "SLURM_PROCID=2; of 2 processes ranks are below 2"),
        ("SLURM_PROCID", "-1", "SLURM_PROCID='-1'; accepted is a whole number from 0 on"),
        ("SLURM_STEP_NUM_TASKS", "0", "accepted is a whole number from 1 on"),
        ("SLURM_STEP_NODELIST", "n[3-1]", "is no list of nodes"),
    ],
)
def test_variables_that_fit_no_step_are_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(LauncherError) as refused:
        launched({**TASK, name: text})
    assert why in str(refused.value)
