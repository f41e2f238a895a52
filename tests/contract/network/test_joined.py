"""`busbw run` under real launchers, on hosts of their own: srun, and mpirun of two versions.

Green over all payloads, and red where something is wrong, with nothing left on any host.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract.network.launchers import OPENMPI_5, mpirun, mpirun_of, slurm
from tests.contract.network.network import Network
from tests.contract.network.sessions import Place, Ran
from tests.contract.network.sshd import Ssh
from tests.helpers.workers import wait_until

pytestmark = pytest.mark.framework("jax")

SECRET = "a secret that all ranks know"
RUN = (sys.executable, "-m", "busbw", "run", "perf/")
FAKE = ("--frameworks=fake", "--payloads=1K", "--launches=1")
JAX = ("--frameworks=jax", "--launches=1")
# How a shell knows which process it is.
_RANK = "${SLURM_PROCID-$OMPI_COMM_WORLD_RANK}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """A launcher's command before the program, for two processes and for one; its environment."""

    place: Place
    two: tuple[str, ...]
    one: tuple[str, ...]
    servers: frozenset[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def ran(self, *options: str, program: tuple[str, ...] = RUN, processes: int = 2) -> Ran:
        """The program by this launcher, once it is over."""
        start = self.two if processes == 2 else self.one
        own = {**self.environment, "BUSBW_SECRET": SECRET}
        session = self.place.begin(*options, command=(*start, *program), environment=own)
        return self.place.ran(session)


def on_rank_1(change: str, program: tuple[str, ...] = RUN) -> tuple[str, ...]:
    """The program; before it rank 1 alone does `change`."""
    return ("sh", "-c", f'[ "{_RANK}" = 1 ] && {change}; exec {shlex.join(program)} "$@"', "sh")


@contextlib.contextmanager
def by_slurm(two: Network, folder: Path, place: Place) -> Iterator[Launcher]:
    folder.mkdir()
    with slurm(two.hosts, folder) as found:
        yield Launcher(
            place=place,
            two=("srun", "-N2", "-n2"),
            one=("srun", "-N1", "-n1"),
            servers=frozenset({"sshd", "slurmctld", "slurmscriptd", "slurmd", "munged"}),
            environment=found.environment,
        )


@contextlib.contextmanager
def by_mpirun(version: int, two: Network, reached: Ssh, place: Place) -> Iterator[Launcher]:
    """mpirun, which starts processes through ssh, and hands on what `-x` names."""
    if not mpirun_of(version).exists():
        pytest.skip(f"{OPENMPI_5} names no folder with mpirun; `tox -e hosts` sets it")
    handed_on = [word for name in ("BUSBW_SECRET", "PYTHONPATH", "TMPDIR") for word in ("-x", name)]
    starts = [
        (*mpirun(version, reached, hosts, len(hosts)), *handed_on)
        for hosts in (two.hosts, two.hosts[:1])
    ]
    yield Launcher(place=place, two=starts[0], one=starts[1], servers=frozenset({"sshd"}))


@pytest.fixture(params=["slurm", "open-mpi-4", "open-mpi-5"])
def launcher(
    request: pytest.FixtureRequest, two: Network, reached: Ssh, place: Place, tmp_path: Path
) -> Iterator[Launcher]:
    """Each of them; nothing but its servers is left on a host."""
    started = (
        by_slurm(two, tmp_path / "slurm", place)
        if request.param == "slurm"
        else by_mpirun(int(request.param[-1]), two, reached, place)
    )
    with started as found:
        yield found
        assert wait_until(lambda: two.runs_only(*found.servers), 15), two.programs()


def test_two_hosts_measure_all_payloads_with_jax(launcher: Launcher) -> None:
    ran = launcher.ran(*JAX, "--payloads=1K:16M")
    assert ran.exit_code == 0, ran.text
    assert set(ran.outcomes.values()) == {"NO_BASELINE"}
    assert len(ran.outcomes) == 15
    assert ran.hosts == 2


def test_a_wrong_option_is_red(launcher: Launcher) -> None:
    ran = launcher.ran(*FAKE, "--payloads=1Q")
    assert ran.exit_code == 4, ran.text
    assert "--payloads: '1Q' is not a size" in ran.text


def test_a_wrong_secret_on_one_host_is_red(launcher: Launcher) -> None:
    wrong = on_rank_1("export BUSBW_SECRET='another secret than the others'")
    ran = launcher.ran(*FAKE, "--agents-wait=5", program=wrong)
    assert ran.exit_code != 0
    assert "does not have the same secret" in ran.text, ran.text


def test_one_process_too_few_is_red(launcher: Launcher) -> None:
    ran = launcher.ran(*FAKE, "--agents=2", processes=1)
    assert ran.exit_code == 4, ran.text
    assert "started 1 process" in ran.text, ran.text


def test_a_process_that_ends_before_it_joins_is_red(launcher: Launcher) -> None:
    gone = on_rank_1("exit 0")
    ran = launcher.ran(*FAKE, "--agents-wait=5", program=gone)
    assert ran.exit_code != 0
    assert "of 2 agents rank 1 did not join within 5 s" in ran.text, ran.text


def test_a_host_without_the_framework_is_red(launcher: Launcher, tmp_path: Path) -> None:
    python = without_jax(tmp_path / "without")
    change = f'exec {python} -m busbw run perf/ "$@"'
    ran = launcher.ran(*JAX, "--payloads=1K", program=on_rank_1(change))
    assert ran.exit_code == 4, ran.text
    assert "worker 1 on host1" in ran.text and "No module named 'jax'" in ran.text, ran.text


def without_jax(folder: Path) -> Path:
    """The Python of an environment with all that this one has, but JAX."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for path in ours.iterdir():
        if not path.name.startswith("jax") and not (theirs / path.name).exists():
            (theirs / path.name).symlink_to(path)
    return folder / "bin" / "python"
