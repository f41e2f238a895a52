"""The hosts of the TPU slice that this host is a part of.

GKE, and TPU VMs that set them, have variables; else Google's metadata server knows, which is asked
only where TPU chips are attached. No framework is asked: a framework that waits for other hosts
hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from busbw.hardware.chips import has_tpu_chips

HOST_NAMES = "TPU_WORKER_HOSTNAMES"
ENDPOINTS = "worker-network-endpoints"
_ALONE = ("TPU_PROCESS_BOUNDS", "1,1,1")
_WITHOUT_METADATA = "TPU_SKIP_MDS_QUERY"
_METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
_METADATA_S = 2.0


def metadata(name: str) -> str:
    """Return an attribute of this machine from Google's metadata server; empty without a server."""
    # Imported where it is asked: it takes as long as all else here.
    import urllib.error
    import urllib.request

    request = urllib.request.Request(_METADATA + name, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_S) as reply:
            text: str = reply.read(2**20).decode(errors="replace")
            return text
    except (urllib.error.URLError, OSError):
        return ""


def hosts_of_slice(
    environment: Mapping[str, str],
    *,
    chips: Callable[[], bool] = has_tpu_chips,
    read_metadata: Callable[[str], str] = metadata,
) -> tuple[tuple[str, ...], str]:
    """Return the hosts, none if they are unknown, and the variable or attribute that names them.

    The metadata server is asked only if there are `chips`.
    """
    name, alone = _ALONE
    if environment.get(name) == alone:
        return (), name
    names = _split(environment.get(HOST_NAMES, ""))
    if names or environment.get(_WITHOUT_METADATA) or not chips():
        return names, HOST_NAMES
    return tuple(_address(text) for text in _split(read_metadata(ENDPOINTS))), ENDPOINTS


def _split(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _address(endpoint: str) -> str:
    """Return the third field of an endpoint between colons, its address; empty without one."""
    return [*endpoint.split(":"), "", ""][2]
