"""Whether this host is one of several of a TPU slice, which a session on it alone would wait for.

Read from what the slice itself says, before any framework is asked: that would hang.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

_HOST_NAMES = "TPU_WORKER_HOSTNAMES"
_ALONE = ("TPU_PROCESS_BOUNDS", "1,1,1")
_WITHOUT_METADATA = "TPU_SKIP_MDS_QUERY"
_METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
_ENDPOINTS = "worker-network-endpoints"
_METADATA_S = 2.0


def metadata(name: str) -> str:
    """An attribute of this machine as Google's metadata server has it; empty without one."""
    request = urllib.request.Request(_METADATA + name, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_S) as answer:
            text: str = answer.read(2**20).decode(errors="replace")
            return text
    except (urllib.error.URLError, OSError):
        return ""


def has_chips(devices: Path = Path("/dev")) -> bool:
    """Whether the kernel has TPU chips attached."""
    return any(devices.glob("accel[0-9]*")) or any(devices.glob("vfio/[0-9]*"))


def hosts_of_slice(
    environment: Mapping[str, str], *, chips: bool, asked: Callable[[str], str] = metadata
) -> tuple[int, str]:
    """How many hosts this one's slice has, and who says so; 1 where it is alone or not known.

    The metadata server is `asked` where there are `chips`.
    """
    name, alone = _ALONE
    if environment.get(name) == alone:
        return 1, name
    names = [one for one in environment.get(_HOST_NAMES, "").split(",") if one.strip()]
    if names or not chips or environment.get(_WITHOUT_METADATA):
        return max(1, len(names)), _HOST_NAMES
    endpoints = [one for one in asked(_ENDPOINTS).split(",") if one.strip()]
    return max(1, len(endpoints)), _ENDPOINTS


def words(hosts: int, source: str) -> str:
    """Why a session on one of several hosts cannot measure, and what does."""
    return (
        f"this host is one of {hosts} of its TPU slice ({source}), and would wait for the others "
        f"for ever; did you run on all hosts? Run it with --processes={hosts} --agents={hosts}, "
        "and `python -m busbw agent` on each host; this host alone has TPU_PROCESS_BOUNDS=1,1,1 "
        "and TPU_VISIBLE_CHIPS"
    )
