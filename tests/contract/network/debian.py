"""Programs of Debian that are tried: installed if missing, and run as servers of a test.

`python -m tests.contract.network.debian` installs, as root; `tox -e hosts` does so before its
tests. A test installs nothing. A server here is the real program with a configuration, folder and
keys of its own: nothing of the machine's Slurm or sshd is used or changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tests.contract.network.namespaces import Host, HostError

# The package of each program.
PACKAGES: Mapping[str, str] = {
    "ip": "iproute2",
    "mpirun": "openmpi-bin",
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "srun": "slurm-wlm",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
}
# Where a user's PATH may have no part.
_SYSTEM = "/usr/sbin:/sbin:/usr/bin:/bin"
_START_S = 20.0
_END_S = 10.0
_STEP_S = 0.05
_LAST_LINES = 15


def missing_packages(programs: Collection[str] = tuple(PACKAGES)) -> list[str]:
    path = os.pathsep.join([os.environ.get("PATH", ""), _SYSTEM])
    return sorted({PACKAGES[name] for name in programs if not shutil.which(name, path=path)})


def install() -> None:
    """Install what is missing. Raises SystemExit, with what to do, where that cannot be."""
    packages = missing_packages()
    if not packages:
        return
    get = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() or not shutil.which("apt-get"):
        raise SystemExit(
            f"not installed: {', '.join(packages)}; as root on Debian: {' '.join(get)}"
        )
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "--quiet"], env=quiet, check=True)
    subprocess.run(get, env=quiet, check=True)


@contextlib.contextmanager
def server(
    host: Host,
    command: Sequence[str],
    log: Path,
    is_ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that serves in the foreground until the end; end it with SIGTERM.

    Raises HostError, with the last lines of its log, if it ends or is not ready in time.
    """
    path = os.pathsep.join([_SYSTEM, os.environ.get("PATH", "")])
    values = {**os.environ, "PATH": path, **(environment or {})}
    with log.open("ab") as file:
        process = host.start(
            command, env=values, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        _wait(process, command[0], log, is_ready)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(
    process: subprocess.Popen[bytes], name: str, log: Path, is_ready: Callable[[], bool]
) -> None:
    end_s = time.monotonic() + _START_S
    while not is_ready():
        if process.poll() is not None:
            raise HostError(f"{name} ended with {process.returncode}: {last_lines(log)}")
        if time.monotonic() > end_s:
            raise HostError(f"{name} is not ready after {_START_S:.0f} s: {last_lines(log)}")
        time.sleep(_STEP_S)


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])


if __name__ == "__main__":
    install()
