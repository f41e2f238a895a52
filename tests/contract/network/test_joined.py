"""--cluster with real launchers: Dask workers started by srun and by mpirun of two versions.

Green over all payloads, and red where something is wrong, with nothing left on any host.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract.network.launchers import OPENMPI_5, mpirun, mpirun_of, slurm
from tests.contract.network.network import Network
from tests.contract.network.sessions import ROOT, Place, Ran
from tests.contract.network.sshd import Ssh
from tests.helpers.workers import wait_until

pytest.importorskip("distributed")
pytestmark = pytest.mark.framework("jax")

FAKE = ("--frameworks=fake", "--payloads=1K", "--launches=1")
JAX = ("--frameworks=jax", "--launches=1")
WORKER = ("--nthreads=1", "--no-nanny", "--no-dashboard", "--memory-limit=0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """A launcher's command before a program that it starts on both hosts, and its environment."""

    two: Network
    place: Place
    start: tuple[str, ...]
    servers: frozenset[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def ran(self, *options: str, processes: int = 2) -> Ran:
        """Run a session on a scheduler and workers that the launcher has started."""
        variables = self.place.environment(self.environment)
        file = self.place.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        dask = (sys.executable, "-m", "distributed.cli.dask_scheduler")
        worker = (sys.executable, "-m", "distributed.cli.dask_worker", f"--scheduler-file={file}")
        first = self.two.hosts[0]
        with (self.place.folder / "dask.log").open("w") as log, contextlib.ExitStack() as ends:
            for command in (
                (*dask, f"--scheduler-file={file}", f"--host={first.address}", "--no-dashboard"),
                (*self.start, *worker, *WORKER),
            ):
                process = first.start(command, env=variables, stdout=log, stderr=log)
                ends.callback(process.wait, 30)
                ends.callback(process.terminate)
            shape = (f"--cluster={file}", f"--processes={processes}", "--cluster-trust-network")
            return self.place.ran(self.place.begin(*shape, *options))


@contextlib.contextmanager
def by_slurm(two: Network, folder: Path, place: Place) -> Iterator[Launcher]:
    folder.mkdir()
    with slurm(two.hosts, folder) as cluster:
        yield Launcher(
            two=two,
            place=place,
            start=("srun", "-N2", "-n2"),
            servers=frozenset({"sshd", "slurmctld", "slurmscriptd", "slurmd", "munged"}),
            environment=cluster.environment,
        )


@contextlib.contextmanager
def by_mpirun(version: int, two: Network, reached: Ssh, place: Place) -> Iterator[Launcher]:
    """Return an mpirun that starts processes through ssh and forwards the variables after `-x`."""
    if not mpirun_of(version).exists():
        pytest.skip(f"{OPENMPI_5} names no folder with mpirun; `tox -e hosts` sets it")
    handed_on = ("-x", "PYTHONPATH", "-x", "TMPDIR", "--bind-to", "none")
    start = (*mpirun(version, reached, two.hosts, 2), *handed_on)
    yield Launcher(two=two, place=place, start=start, servers=frozenset({"sshd"}))


@pytest.fixture(params=["slurm", "open-mpi-4", "open-mpi-5"])
def launcher(
    request: pytest.FixtureRequest, two: Network, reached: Ssh, place: Place, tmp_path: Path
) -> Iterator[Launcher]:
    """Yield each launcher, and check that it leaves only its servers on a host."""
    started = (
        by_slurm(two, tmp_path / "slurm", place)
        if request.param == "slurm"
        else by_mpirun(int(request.param[-1]), two, reached, place)
    )
    with started as begun:
        yield begun
        assert wait_until(lambda: two.runs_only(*begun.servers), 15), two.programs()


def test_jax_measures_15_payloads_on_two_hosts_whose_workers_a_launcher_started(
    launcher: Launcher,
) -> None:
    ran = launcher.ran(*JAX, "--payloads=1K:16M")
    assert ran.exit_code == 0, ran.text
    assert set(ran.outcomes.values()) == {"NO_BASELINE"}
    assert len(ran.outcomes) == 15
    assert ran.hosts == 2


def test_a_session_with_too_few_dask_workers_is_a_usage_error(launcher: Launcher) -> None:
    ran = launcher.ran(*FAKE, "--device-wait=15", processes=3)
    assert ran.exit_code == 4, ran.text
    assert "2 of 3 Dask workers joined within 15 s" in ran.text, ran.text


def test_the_documented_script_for_hosts_runs_under_sbatch(
    two: Network, reached: Ssh, place: Place, tmp_path: Path
) -> None:
    """Use the certificate and the script of the page with fewer nodes and the fake framework."""
    page = (ROOT / "docs" / "hosts.md").read_text()
    (place.folder / "home").mkdir()
    script = _block(page, "    #!/bin/bash\n").replace("--nodes=4", "--nodes=2")
    (place.folder / "job").write_text(script.replace("--device=gpu", " ".join(FAKE)))
    certificate = _block(page, "    (umask 077; openssl ")
    with by_slurm(two, tmp_path / "slurm", place) as launcher:
        variables = place.environment({**launcher.environment, "HOME": str(place.folder / "home")})
        variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
        first = two.hosts[0]
        run = functools.partial(subprocess.run, env=variables, cwd=place.folder, check=False)
        made = run(first.command(["bash", "-c", certificate]), capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        done = run(first.command(["sbatch", "--wait", "--output=job.log", "job"]), timeout=120)
        text = (place.folder / "job.log").read_text()
        assert done.returncode == 0, text
        assert "2 hosts, 2 processes" in text
        assert wait_until(lambda: two.runs_only(*launcher.servers), 15), two.programs()


def _block(page: str, begin: str) -> str:
    """Return the indented block of the page that begins with `begin`."""
    lines = page[page.index(begin) :].splitlines(keepends=True)
    return textwrap.dedent(
        "".join(itertools.takewhile(lambda line: line.startswith("    "), lines))
    )
