"""What the device says of itself before and after, and how NCCL moves the bytes, by its own log."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from busbw.model.words import Device

# Variables of NCCL by which it writes its log into files of this folder.
LOGS = "nccl-%h-%p.log"

_TIMEOUT_S = 30
# Of `nvidia-smi -q -x`, for each GPU: what can go wrong, and what decides times.
_TAGS = (
    *("product_name", "performance_state", "clocks_event_reasons", "clocks_throttle_reasons"),
    *("ecc_errors", "remapped_rows", "retired_pages", "temperature", "clocks", "fb_memory_usage"),
    *("gpu_power_readings", "power_readings", "mig_mode", "pci/replay_counter"),
)
# NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : .* via (?P<way>\S+)")
# NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
_INTERFACES = re.compile(r"NET/\w+ *: Using (?P<list>(?:\[\d+\]\S+ ?)+)")
_INTERFACE = re.compile(r"\[\d+\](?P<name>[^:\s]+)")
_VERSION = re.compile(r"NCCL version (?P<version>[\d.]+\S*)")

_COUNTERS = """
import json, sys
from busbw import wire
from busbw.model.words import Device
from busbw.worker import counters
print(json.dumps(wire.to_json(counters.reading(Device(sys.argv[1])))))
"""


def health(device: Device) -> dict[str, Any]:
    """Read the device's counters by busbw's own reader and, for a GPU, by nvidia-smi.

    In processes of their own: a call may hang.
    """
    command = [sys.executable, "-c", _COUNTERS, device.value]
    found: dict[str, Any] = {"counters": _said(command, json.loads)}
    if device is Device.GPU:
        smi = shutil.which("nvidia-smi")
        said = _said([smi, "-q", "-x"], gpus) if smi else {"problem": "there is no nvidia-smi"}
        found["nvidia-smi"] = said
    return found


def _said(command: list[str], read: Any) -> Any:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
        return read(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, ET.ParseError) as error:
        return {"problem": f"{type(error).__name__}: {error}"[:300]}


def gpus(text: str) -> dict[str, Any]:
    root = ET.fromstring(text)
    found: dict[str, Any] = {"driver": root.findtext("driver_version", "")}
    for number, gpu in enumerate(root.findall("gpu")):
        kept = {
            name: value
            for tag in _TAGS
            for element in gpu.findall(tag)
            for name, value in _leaves(element, tag)
            if value not in ("", "N/A")
        }
        found[f"gpu {number}"] = kept
    return found


def _leaves(element: ET.Element, name: str) -> Iterator[tuple[str, str]]:
    children = list(element)
    if not children:
        yield name, (element.text or "").strip()
    for child in children:
        yield from _leaves(child, f"{name}/{child.tag}")


def transport(device: Device, folder: Path) -> dict[str, Any]:
    """Return the transport between the processes; for GPUs by NCCL's logs in `folder`."""
    if device is not Device.GPU:
        return {"text": "gloo over loopback sockets", "ways": ["gloo"], "interfaces": ["lo"]}
    text = "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("nccl-*.log")))
    return of_log(text)


def of_log(text: str) -> dict[str, Any]:
    ways = sorted({match["way"] for match in _CHANNEL.finditer(text)})
    lists = [match["list"] for match in _INTERFACES.finditer(text)]
    names = sorted({match["name"] for one in lists for match in _INTERFACE.finditer(one)})
    version = _VERSION.search(text)
    return {
        "text": f"NCCL over {_words(ways, names)}",
        "ways": ways,
        "interfaces": names,
        "nccl": version["version"] if version else "",
    }


def _words(ways: list[str], interfaces: list[str]) -> str:
    if not ways:
        return "a transport that its log does not say"
    if all(way.startswith("NET/Socket") for way in ways):
        named = f"sockets within the host ({', '.join(interfaces)})"
        return "loopback sockets" if interfaces == ["lo"] else named
    return ", ".join(ways)
