"""The hosts of the TPU slice that this host is a part of.

GKE, and TPU VMs that set them, have variables; else Google's metadata server knows, which is asked
only where TPU chips are attached. No framework is asked: a framework that waits for other hosts
hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

HOST_NAMES = "TPU_WORKER_HOSTNAMES"
ENDPOINTS = "worker-network-endpoints"
_ALONE = ("TPU_PROCESS_BOUNDS", "1,1,1")
_WITHOUT_METADATA = "TPU_SKIP_MDS_QUERY"
_METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
_METADATA_S = 2.0


def metadata(name: str) -> str:
    """An attribute of this machine as Google's metadata server has it; empty without one."""
    # Imported where it is asked: it takes as long as all else here.
    import urllib.error
    import urllib.request

    request = urllib.request.Request(_METADATA + name, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_S) as answer:
            text: str = answer.read(2**20).decode(errors="replace")
            return text
    except (urllib.error.URLError, OSError):
        return ""


def has_chips(devices: Path = Path("/dev")) -> bool:
    return any(devices.glob("accel[0-9]*")) or any(devices.glob("vfio/[0-9]*"))


def hosts_of_slice(
    environment: Mapping[str, str],
    *,
    chips: Callable[[], bool] = has_chips,
    asked: Callable[[str], str] = metadata,
) -> tuple[tuple[str, ...], str]:
    """And who says so; none if unknown. The metadata server is `asked` where there are `chips`."""
    name, alone = _ALONE
    if environment.get(name) == alone:
        return (), name
    names = _listed(environment.get(HOST_NAMES, ""))
    if names or environment.get(_WITHOUT_METADATA) or not chips():
        return names, HOST_NAMES
    return tuple(_address(one) for one in _listed(asked(ENDPOINTS))), ENDPOINTS


def _listed(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _address(endpoint: str) -> str:
    """The address in an endpoint: its third field between colons; empty where it has none."""
    return [*endpoint.split(":"), "", ""][2]
