"""Run the parts, and write the results after each."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from busbw import files
from busbw.model.words import Device
from busbw.worker import sharing

from ..processes import BenchError
from . import surroundings, table
from .parts import PARTS, Bench, Part

# A GPU costs money by the minute; a CPU has no limit.
LIMIT_S = 240.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="default: gpu")
    parser.add_argument(
        "--parts", type=_names, default=list(PARTS), help=f"comma list of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("bench-gpu"), help="folder of results (bench-gpu)"
    )
    parser.set_defaults(lines=lines)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(PARTS)}, got {name!r}")
    return names


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Run the parts, and yield where the results are. Raises SystemExit if a part failed."""
    device = Device(options.device)
    is_gpu = device is Device.GPU
    if is_gpu:
        _see_one_gpu()
    out: Path = options.out.absolute()
    bench = Bench(device=device, out=out, end_s=time.monotonic() + LIMIT_S if is_gpu else None)
    for folder in (out / surroundings.LOGS, bench.parts):
        folder.mkdir(parents=True, exist_ok=True)
    # Workers inherit the environment of this process.
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_FILE"] = str(out / surroundings.LOGS / "nccl-%h-%p.log")
    document = run(bench, {name: PARTS[name] for name in options.parts})
    yield f"results: {out / 'gpu.json'}, {out / 'gpu.md'}"
    failed = [name for name, part in document["parts"].items() if part["problem"]]
    if failed:
        raise SystemExit(f"bench gpu: parts that failed: {', '.join(failed)}")


def _see_one_gpu() -> None:
    """Leave one GPU for this process and all that it starts. Raises SystemExit without any."""
    if not sharing.visible_gpus(os.environ):
        raise SystemExit(
            "bench gpu: there is no NVIDIA GPU here that this process sees; --device=cpu tries all "
            "parts on the CPU"
        )
    listed = os.environ.get("CUDA_VISIBLE_DEVICES") or "0"
    os.environ["CUDA_VISIBLE_DEVICES"] = listed.split(",")[0].strip()


def run(bench: Bench, parts: Mapping[str, Part]) -> dict[str, Any]:
    """Run each part even if others fail, and write the results so far after each.

    Parts that an earlier run on the same device left in the folder stay.
    """
    path = bench.out / "gpu.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    is_same = earlier.get("device") == bench.device.value
    results: dict[str, Any] = earlier["parts"] if is_same else {}
    document: dict[str, Any] = {
        "document": "busbw bench gpu",
        "version": 1,
        "device": bench.device.value,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "transport": {},
        "health": {"before": surroundings.health(bench.device)},
    }
    for name, part in parts.items():
        results[name] = _run_part(bench, name, part)
        document["transport"] = surroundings.transport(bench.device, bench.out)
        document["health"]["after"] = surroundings.health(bench.device)
        document["parts"] = {part: results[part] for part in PARTS if part in results}
        files.write(path, json.dumps(document, indent=1) + "\n")
        files.write(bench.out / "gpu.md", table.page(document))
    return document


def _run_part(bench: Bench, name: str, part: Part) -> dict[str, Any]:
    begin_s, problem = time.monotonic(), ""
    result: Mapping[str, Any] = {}
    print(f"bench gpu: {name} ...", flush=True)
    try:
        bench.left_s(1.0)
        result = part(bench)
    except BenchError as error:
        problem, result = str(error), error.result
    except Exception as error:
        # The other parts run whatever the error of this part is.
        traceback.print_exc()
        problem = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begin_s
    print(f"bench gpu: {name}: {problem or 'done'} ({seconds:.0f} s)", flush=True)
    return {"seconds": seconds, "problem": problem, "result": result}
