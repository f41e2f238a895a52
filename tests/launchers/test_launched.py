"""Which launcher is asked first, and what a process without any is told."""

from __future__ import annotations

from busbw.launchers import FINDERS, launched
from busbw.launchers.base import Launched

SLURM = {
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
TPU = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b"}
KUBERNETES = {"JOB_COMPLETION_INDEX": "5"}


def test_an_environment_of_no_launcher_has_none() -> None:
    others = {name: find for name, find in FINDERS.items() if name != "tpu"}
    assert launched({"HOME": "/", "SLURM_PROCID": "0", "PATH": ""}, others) is None


def test_what_is_nearer_to_the_process_is_asked_first() -> None:
    found = [
        launched({**KUBERNETES, **TPU, **SLURM, **OPEN_MPI}),
        launched({**KUBERNETES, **TPU, **SLURM}),
        launched({**KUBERNETES, **TPU}),
    ]
    assert [one and one.launcher for one in found] == ["Open MPI", "Slurm", "the TPU slice"]


def test_daemons_of_open_mpi_that_slurm_starts_do_not_count() -> None:
    """In an allocation mpirun starts a daemon on each other host, as a step of its own."""
    found = launched({**OPEN_MPI, **SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})
    assert found is not None and (found.launcher, found.rank, found.count) == ("Open MPI", 3, 4)


def test_it_says_how_many_it_has_started() -> None:
    def started(count: int | None) -> str:
        return Launched(launcher="Slurm", rank=0, count=count, job="").started

    assert started(1) == "Slurm started 1 process"
    assert started(2) == "Slurm started 2 processes"
    assert started(None) == "Slurm started an unknown number of processes"
