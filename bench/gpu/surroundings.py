"""Read the device's counters, and from NCCL's log how the bytes are moved."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from busbw.model.words import Device

# The folder of NCCL's logs.
LOGS = "nccl"

_TIMEOUT_S = 30
# Elements of `nvidia-smi -q -x` for each GPU: what can go wrong, and what decides times.
_ELEMENTS = (
    *("product_name", "performance_state", "clocks_event_reasons", "clocks_throttle_reasons"),
    *("ecc_errors", "remapped_rows", "retired_pages", "temperature", "clocks", "fb_memory_usage"),
    *("gpu_power_readings", "power_readings", "mig_mode", "pci/replay_counter"),
)
# NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : .* via (\S+)")
# NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
_INTERFACES = re.compile(r"NET/\w+ *: Using ((?:\[\d+\]\S+ ?)+)")
_INTERFACE = re.compile(r"\[\d+\]([^:\s]+)")
_VERSION = re.compile(r"NCCL version ([\d.]+\S*)")

_COUNTERS = """
import json, sys
from busbw import wire
from busbw.model.words import Device
from busbw.worker import counters
print(json.dumps(wire.to_json(counters.reading(Device(sys.argv[1])))))
"""


def health(device: Device) -> dict[str, Any]:
    """Read the device's counters by busbw's own reader and, for a GPU, by nvidia-smi."""
    counters = _output([sys.executable, "-c", _COUNTERS, device.value], json.loads)
    if device is not Device.GPU:
        return {"counters": counters}
    return {"counters": counters, "nvidia-smi": _output(["nvidia-smi", "-q", "-x"], gpus)}


def _output(command: list[str], read: Callable[[str], Any]) -> Any:
    # In a process of its own, since a call of a device's library may hang.
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
        return read(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, ET.ParseError) as error:
        return {"problem": f"{type(error).__name__}: {error}"[:300]}


def gpus(text: str) -> dict[str, Any]:
    """Return the driver and the leaves of each GPU that have a value, by path."""
    root = ET.fromstring(text)
    readings: dict[str, Any] = {"driver": root.findtext("driver_version", "")}
    for number, gpu in enumerate(root.findall("gpu")):
        readings[f"gpu {number}"] = {
            path: value
            for name in _ELEMENTS
            for element in gpu.findall(name)
            for path, value in _leaves(element, name)
            if value not in ("", "N/A")
        }
    return readings


def _leaves(element: ET.Element, path: str) -> Iterator[tuple[str, str]]:
    if not len(element):
        yield path, (element.text or "").strip()
    for child in element:
        yield from _leaves(child, f"{path}/{child.tag}")


def transport(device: Device, out: Path) -> dict[str, Any]:
    """Return the transport between the processes; for GPUs by NCCL's logs."""
    if device is not Device.GPU:
        return {"text": "gloo over loopback sockets", "ways": ["gloo"], "interfaces": ["lo"]}
    logs = sorted((out / LOGS).glob("nccl-*.log"))
    return of_log("\n".join(path.read_text(errors="replace") for path in logs))


def of_log(text: str) -> dict[str, Any]:
    """Return the transport of a log of NCCL."""
    ways = sorted(set(_CHANNEL.findall(text)))
    lists = " ".join(_INTERFACES.findall(text))
    interfaces = sorted(set(_INTERFACE.findall(lists)))
    over = ", ".join(ways) or "a transport that its log does not name"
    if ways and all(way.startswith("NET/Socket") for way in ways):
        named = f"sockets within the host ({', '.join(interfaces)})"
        over = "loopback sockets" if interfaces == ["lo"] else named
    return {
        "text": f"NCCL over {over}",
        "ways": ways,
        "interfaces": interfaces,
        "nccl": "".join(_VERSION.findall(text)[:1]),
    }
