"""The command: which parts on which device; each writes its result as soon as it ends."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from busbw.model.words import Device
from busbw.worker import sharing

from . import surroundings, table
from .bench import Bench, PartError
from .parts import PARTS

# On a GPU that somebody pays for; a CPU is waited for.
LIMIT_S = 240.0
_DOCUMENT = {"document": "busbw bench gpu", "version": 1}
_LOGS = "nccl"

_Parts = Mapping[str, Callable[[Bench], dict[str, Any]]]


def main(words: Sequence[str]) -> None:
    options = _options(words)
    device = Device(options.device)
    if device is Device.GPU:
        _see_one_gpu()
    out: Path = options.out.absolute()
    end_s = time.monotonic() + LIMIT_S if device is Device.GPU else None
    bench = Bench(device=device, out=out, end_s=end_s)
    for folder in (out / _LOGS, bench.parts):
        folder.mkdir(parents=True, exist_ok=True)
    # Workers have this process' environment.
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_FILE"] = str(out / _LOGS / surroundings.LOGS)
    document = run(bench, {name: PARTS[name] for name in options.parts})
    failed = [name for name, part in document["parts"].items() if part["problem"]]
    print(f"results: {out / 'gpu.json'}, {out / 'gpu.md'}", flush=True)
    if failed:
        raise SystemExit(f"bench gpu: parts that failed: {', '.join(failed)}")


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench gpu",
        description=f"{__doc__} On a GPU it ends after {LIMIT_S:.0f} s.",
    )
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="default: gpu")
    parser.add_argument(
        "--parts", type=_names, default=list(PARTS), help=f"comma list of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("bench-gpu"), help="folder of results (bench-gpu)"
    )
    return parser.parse_args(words)


def _names(text: str) -> list[str]:
    found = [name.strip() for name in text.split(",")]
    for name in found:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(PARTS)}, got {name!r}")
    return found


def _see_one_gpu() -> None:
    """Leave one GPU for this process and all that it starts. Raises SystemExit without any."""
    if not sharing.visible_gpus(os.environ):
        raise SystemExit(
            "bench gpu: there is no NVIDIA GPU here that this process sees; --device=cpu tries all "
            "parts on the CPU"
        )
    listed = os.environ.get("CUDA_VISIBLE_DEVICES") or "0"
    os.environ["CUDA_VISIBLE_DEVICES"] = listed.split(",")[0].strip()


def run(bench: Bench, parts: _Parts) -> dict[str, Any]:
    """Run each part, whatever came of the others, and write what there is after each."""
    document: dict[str, Any] = {
        **_DOCUMENT,
        "device": bench.device.value,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "transport": surroundings.transport(bench.device, bench.out / _LOGS),
        "health": {"before": surroundings.health(bench.device), "after": {}},
        "parts": _earlier(bench),
    }
    for name, part in parts.items():
        ran = {**document["parts"], name: _ran(bench, name, part)}
        document["parts"] = {one: ran[one] for one in (*PARTS, *parts) if one in ran}
        document["transport"] = surroundings.transport(bench.device, bench.out / _LOGS)
        document["health"]["after"] = surroundings.health(bench.device)
        _write(bench, document)
    return document


def _earlier(bench: Bench) -> dict[str, Any]:
    """Read the parts that an earlier run on the same device left here; some are run once more."""
    path = bench.out / "gpu.json"
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    parts: dict[str, Any] = found["parts"] if found["device"] == bench.device.value else {}
    return parts


def _ran(bench: Bench, name: str, part: Callable[[Bench], dict[str, Any]]) -> dict[str, Any]:
    begun_s, problem = time.monotonic(), ""
    result: Mapping[str, Any] = {}
    print(f"bench gpu: {name} ...", flush=True)
    try:
        bench.left_s(1.0)
        result = part(bench)
    except PartError as error:
        problem, result = str(error), error.result
    except Exception as error:
        # Whatever it is, the parts that follow are to run.
        traceback.print_exc()
        problem = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begun_s
    print(f"bench gpu: {name}: {problem or 'done'} ({seconds:.0f} s)", flush=True)
    return {"seconds": seconds, "problem": problem, "result": result}


def _write(bench: Bench, document: Mapping[str, Any]) -> None:
    for path, text in (
        (bench.out / "gpu.json", json.dumps(document, indent=1) + "\n"),
        (bench.out / "gpu.md", table.page(document)),
    ):
        whole = path.with_suffix(".part")
        whole.write_text(text)
        whole.replace(path)
