"""Find the hosts of the TPU slice to which this host belongs.

On GKE and on some TPU VMs, environment variables name the hosts. Elsewhere Google's metadata server
names them. The server is asked only if TPU chips are attached to this host. No framework is asked,
because a framework waits forever for the other hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from busbw.hardware.chips import has_tpu_chips

HOST_NAMES_VARIABLE = "TPU_WORKER_HOSTNAMES"
ENDPOINTS_ATTRIBUTE = "worker-network-endpoints"
_ONLY_OWN_CHIPS = ("TPU_PROCESS_BOUNDS", "1,1,1")
_SKIP_METADATA = "TPU_SKIP_MDS_QUERY"
_METADATA_URL = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
_METADATA_TIMEOUT_S = 2.0


def fetch_metadata(name: str) -> str:
    """Return an attribute of this machine from Google's metadata server.

    `name` is the name of the attribute. Returns an empty text if no server answers.
    """
    # Most sessions do not need urllib, whose import takes as long as the rest of this extension.
    import urllib.error
    import urllib.request

    request = urllib.request.Request(_METADATA_URL + name, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_TIMEOUT_S) as reply:
            text: str = reply.read(2**20).decode(errors="replace")
            return text
    except (urllib.error.URLError, OSError):
        return ""


def find_slice_hosts(
    environment: Mapping[str, str],
    *,
    has_chips: Callable[[], bool] = has_tpu_chips,
    read_metadata: Callable[[str], str] = fetch_metadata,
) -> tuple[tuple[str, ...], str]:
    """Return the hosts of the TPU slice, and the name of the variable or attribute that names them.

    There are no hosts if they are unknown, or if this host was told to use only its own chips.
    `environment` are the environment variables of this process. The metadata server is asked by
    `read_metadata`, and only if `has_chips` says that TPU chips are attached.
    """
    name, only_own_chips = _ONLY_OWN_CHIPS
    if environment.get(name) == only_own_chips:
        return (), name
    names = _split_names(environment.get(HOST_NAMES_VARIABLE, ""))
    if names or environment.get(_SKIP_METADATA) or not has_chips():
        return names, HOST_NAMES_VARIABLE
    # An endpoint is such as ``unknown:unknown:10.0.0.2``; its third field is the address.
    endpoints = _split_names(read_metadata(ENDPOINTS_ATTRIBUTE))
    return tuple([*text.split(":"), "", ""][2] for text in endpoints), ENDPOINTS_ATTRIBUTE


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
