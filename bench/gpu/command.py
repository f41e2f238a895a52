"""Run the parts of the benchmark, and write all results as JSON after each part."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import subprocess
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from busbw import storage
from busbw.model.words import DeviceClass
from busbw.worker import host

from ..processes import BenchError
from .parts import PARTS, Bench, Part

# A GPU costs money by the minute; a CPU has no limit.
LIMIT_S = 240.0
# The counters of nvidia-smi that show errors of a GPU, or explain its times.
_HEALTH_COUNTERS = "ECC,PAGE_RETIREMENT,ROW_REMAPPER,PERFORMANCE,CLOCK,TEMPERATURE,POWER,MEMORY"
# NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
_CHANNEL_LINE = re.compile(r"Channel \d+(?:/\d+)? : .* via (\S+)")
# NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
_INTERFACE_NAME = re.compile(r"\[\d+\]([^:\s]+):")
_NCCL_VERSION = re.compile(r"NCCL version \S+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts = ",".join(PARTS)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="default: gpu")
    parser.add_argument("--parts", default=parts, help=f"comma list; default: {parts}")
    parser.add_argument(
        "--out", type=Path, default=Path("bench-gpu"), help="folder of results (bench-gpu)"
    )
    parser.set_defaults(lines=lines)


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Run the selected parts, and yield a line with the path of the results.

    Raises BenchError if a part is unknown or failed, or if there is no GPU.
    """
    names, device, deadline_s = options.parts.split(","), DeviceClass(options.device), math.inf
    if not set(names) <= set(PARTS):
        raise BenchError(f"--parts: expected some of {', '.join(PARTS)}, got {options.parts!r}")
    if device is DeviceClass.GPU:
        _hide_other_gpus()
        deadline_s = time.monotonic() + LIMIT_S
    output_folder: Path = options.out.absolute()
    output_folder.mkdir(parents=True, exist_ok=True)
    # Workers inherit the environment of this process.
    os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(output_folder / "nccl-%h-%p.log")}
    bench = Bench(device=device, output_folder=output_folder, deadline_s=deadline_s)
    document = run_parts(bench, {name: PARTS[name] for name in names})
    yield f"results: {output_folder / 'gpu.json'}"
    failed = [name for name, part in document["parts"].items() if part["problem"]]
    if failed:
        raise BenchError(f"parts that failed: {', '.join(failed)}")


def _hide_other_gpus() -> None:
    """Let this process, and the processes that it starts, see only one GPU.

    Raises BenchError if there is no GPU.
    """
    if not host.count_visible_gpus(os.environ):
        raise BenchError(
            "there is no NVIDIA GPU here that this process sees; --device=cpu tries all parts on "
            "the CPU"
        )
    listed = os.environ.get("CUDA_VISIBLE_DEVICES") or "0"
    os.environ["CUDA_VISIBLE_DEVICES"] = listed.split(",")[0].strip()


def run_parts(bench: Bench, parts: Mapping[str, Part]) -> dict[str, Any]:
    """Run each part, even after another part failed, and return all results.

    The results so far are written after each part. They include the results of other parts that an
    earlier run on the same device wrote into the same folder.
    """
    path = bench.output_folder / "gpu.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    is_same = earlier.get("device") == bench.device.value
    results: dict[str, Any] = earlier["parts"] if is_same else {}
    document: dict[str, Any] = {
        "document": "busbw bench gpu",
        "version": 1,
        "device": bench.device.value,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "health": {"before": read_health(bench.device)},
    }
    for name, part in parts.items():
        results[name] = _run_part(bench, name, part)
        document["transport"] = describe_transport(bench)
        document["health"]["after"] = read_health(bench.device)
        document["parts"] = {part: results[part] for part in PARTS if part in results}
        storage.write(path, json.dumps(document, indent=1) + "\n")
    return document


def _run_part(bench: Bench, name: str, part: Part) -> dict[str, Any]:
    """Run a part; return its result with its time in seconds, and with the error if it failed."""
    begin_s, problem = time.monotonic(), ""
    try:
        result: Mapping[str, Any] = part(bench)
    except Exception as error:
        # An error of any type must not keep the other parts from running.
        traceback.print_exc()
        problem, result = f"{type(error).__name__}: {error}", getattr(error, "result", {})
    seconds = time.monotonic() - begin_s
    print(f"bench gpu: {name}: {problem or 'done'} ({seconds:.0f} s)", flush=True)
    return {"seconds": seconds, "problem": problem, "result": result}


def describe_transport(bench: Bench) -> str:
    """Return how bytes move between the two processes, such as ``gloo``.

    On a GPU, the logs of NCCL say it.
    """
    if bench.device is not DeviceClass.GPU:
        return "gloo"
    text = "\n".join(
        path.read_text(errors="replace") for path in bench.output_folder.glob("nccl-*.log")
    )
    ways, interfaces = (
        sorted(set(pattern.findall(text))) for pattern in (_CHANNEL_LINE, _INTERFACE_NAME)
    )
    version = next(iter(_NCCL_VERSION.findall(text)), "NCCL")
    over = ", ".join(ways) or "a transport that its log does not name"
    return f"{version} over {over} ({', '.join(interfaces)})"


def read_health(device: DeviceClass) -> Sequence[str]:
    """Return the lines with counters of the GPUs as nvidia-smi prints them; empty on a CPU."""
    if device is not DeviceClass.GPU:
        return []
    try:
        # A GPU driver that hangs must not stop the benchmark.
        smi = subprocess.run(
            ["nvidia-smi", "-q", "-d", _HEALTH_COUNTERS],
            capture_output=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return [f"{type(error).__name__}: {error}"]
    return smi.stdout.decode(errors="replace").splitlines()
