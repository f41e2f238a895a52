"""The launchers of this machine start processes on hosts, with the variables that they promise."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.network.launchers import OPENMPI_5, Slurm, mpirun, mpirun_of, slurm
from tests.contract.network.network import Network
from tests.contract.network.sshd import Ssh
from tests.helpers.workers import wait_until


@pytest.fixture
def queued(installed: None, two: Network, tmp_path: Path) -> Iterator[Slurm]:
    with slurm(two.hosts, tmp_path) as found:
        yield found


def test_ssh_runs_a_command_on_the_host_that_it_names(two: Network, reached: Ssh) -> None:
    first = two.hosts[0]
    for host in two.hosts:
        assert first.run(reached.command(host, "hostname")).strip() == host.name


def test_ssh_hands_on_the_exit_status_of_its_command(two: Network, reached: Ssh) -> None:
    first, second = two.hosts
    done = subprocess.run(first.command(reached.command(second, "exit 7")), check=False)
    assert done.returncode == 7


def test_srun_starts_a_task_on_each_node_with_its_variables(queued: Slurm) -> None:
    names = ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_JOB_NODELIST"]
    values = " ".join(f"${name}" for name in names)
    said = queued.run(["srun", "-N2", "-n4", "sh", "-c", f'echo "$(hostname) {values}"'])
    assert sorted(said.splitlines()) == [
        "host0 0 4 0 0 host[0-1]",
        "host0 1 4 0 1 host[0-1]",
        "host1 2 4 1 0 host[0-1]",
        "host1 3 4 1 1 host[0-1]",
    ]


def test_srun_fails_if_a_task_fails(queued: Slurm) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        queued.run(["srun", "-N2", "-n2", "sh", "-c", "exit $SLURM_PROCID"])
    assert failed.value.returncode == 1


def test_nothing_of_slurm_is_left(installed: None, two: Network, tmp_path: Path) -> None:
    with slurm(two.hosts, tmp_path) as made:
        job = subprocess.Popen(
            two.hosts[0].command(["srun", "-N2", "-n2", "sleep", "60"]), env=made.environment
        )
        assert wait_until(lambda: _names(two).count("sleep") == 2)
    assert job.wait(20) != 0
    assert [host.processes() for host in two.hosts] == [[], []]


@pytest.mark.parametrize("version", [4, 5])
def test_mpirun_starts_a_process_on_each_host_with_its_variables(
    two: Network, reached: Ssh, version: int
) -> None:
    if not mpirun_of(version).exists():
        pytest.skip(f"{OPENMPI_5} names no folder with mpirun; `tox -e hosts` sets it")
    names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"]
    values = " ".join(f"${name}" for name in names)
    start = mpirun(version, reached, two.hosts, 4)
    said = two.hosts[0].run([*start, "sh", "-c", f'echo "$(hostname) {values}"'])
    expected = ["host0 0 4 0", "host0 1 4 1", "host1 2 4 0", "host1 3 4 1"]
    assert sorted(said.splitlines()) == expected


def _names(two: Network) -> str:
    found = [Path(f"/proc/{each}/comm") for host in two.hosts for each in host.processes()]
    return " ".join(path.read_text().strip() for path in found if path.exists())
