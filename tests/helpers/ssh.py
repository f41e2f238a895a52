"""A program in the place of ssh: it runs the command on this host, as sshd would.

It takes the options that ssh is given, never reads a configuration, and tells the command the
addresses of a connection. Each host is a machine of its own, but for the names of this one. Hosts
with these names have something of their own.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.helpers.workers import write_program

# Two names of one machine.
HERE = ("localhost", "127.0.0.1")
# The command there finds a Python that is no Python; no connection at all; and no address.
BROKEN, UNREACHED, HIDDEN = "broken", "unreached", "hidden"

_PROGRAM = f"""\
#!/bin/sh
echo "$@" >> "$0.log"
while [ "$1" != "--" ]; do shift; done
case "$2" in
{" | ".join(HERE)}) ;;
*) export BUSBW_MACHINE="$BUSBW_MACHINE/$2";;
esac
export BUSBW_FAKE_HOST="$2"
case "$2" in
{UNREACHED}) echo "ssh: connect to host {UNREACHED} port 22: No route to host" >&2; exit 255;;
{BROKEN}) exec sh -c "exec python-that-is-not-there";;
{HIDDEN}) export SSH_CONNECTION="UNKNOWN 65535 UNKNOWN 65535";;
*) export SSH_CONNECTION="127.0.0.1 50000 127.0.0.1 22";;
esac
exec sh -c "$3"
"""


def written(folder: Path) -> Path:
    """Write the folder to put first on PATH, with the program and a log of how it was called."""
    folder.mkdir()
    write_program(folder / "ssh", _PROGRAM)
    return folder


def called(folder: Path) -> str:
    """Return how it was called, a line each time; empty for never."""
    log = folder / "ssh.log"
    return log.read_text() if log.exists() else ""


def python() -> str:
    """Return the Python of the tests, as --host-python takes it."""
    return sys.executable if " " not in sys.executable else str(shutil.which("python3"))
