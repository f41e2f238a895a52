"""What the hosts of these tests need of the machine: root, Linux's tools for networks, Debian.

Looks only, and says in one sentence what is missing; what is skipped for it is decided elsewhere.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Set by the tox environment `hosts`: without it nothing here is run.
ASKED = "BUSBW_HOSTS"
TUN = Path("/dev/net/tun")
PROGRAMS = ("ip", "tc", "unshare", "hostname")


def missing() -> str:
    """Why there can be no hosts on this machine; empty if there can."""
    if not os.environ.get(ASKED):
        return f"{ASKED} is not set; `tox -e hosts` sets it"
    return missing_here()


def missing_here() -> str:
    """The same, whether or not they were asked for."""
    if os.geteuid():
        return "network namespaces need root"
    if not TUN.is_char_device():
        return f"there is no {TUN}, which is the cable of a host"
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    return (
        f"{absent[0]} is not installed (Debian: iproute2, util-linux, hostname)" if absent else ""
    )
