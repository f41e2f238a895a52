"""Take from real recordings the events that matter here, into small files of our own form.

``python -m tests.unit.traces.extract FOLDER`` reads the recordings that `SOURCES` names from FOLDER
and writes `data/<name>.json`: where it came from, and of each event name, plane, line, times and
the stats that are looked at. Texts stand once, in a list, and elsewhere as their place in it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.traces.chrome import read_chrome
from busbw.traces.event import Event, Trace
from busbw.traces.xplane import read_xplane

DATA = Path(__file__).with_name("data")
# A folder with the whole recordings, where there is one.
_BESIDE = Path(__file__).parents[3] / "shared" / "data" / "recordings"
WHOLE = Path(os.environ.get("BUSBW_RECORDINGS", _BESIDE))
_KEPT_STATS = {
    "device_offset_ps",
    "device_duration_ps",
    "hlo_category",
    "hlo_op",
    "long_name",
    "run_id",
    "step_id",
}
# What stands behind is of no use here, and most of a text.
_LATER = re.compile(r", (?:metadata|backend_config|frontend_attributes)=.*")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A public recording: where it is, what made it, and which of its events are taken."""

    file: str
    said: Mapping[str, str]
    takes: Callable[[Event], bool]


def _of_tpu(*names: str) -> Callable[[Event], bool]:
    pattern = re.compile("|".join(names))
    return lambda event: "TPU" in event.plane and pattern.fullmatch(event.name) is not None


SOURCES: Mapping[str, Source] = {
    "tpu_v6e_xprof": Source(
        file="tpu-xprof-inference2-old/plugins/profile/run/tpu_inference_2.xplane.pb",
        said={
            "repository": "openxla/xprof",
            "path": "xprof/convert/test_xplanes/tpu_inference_2.xplane.pb",
            "commit": "8c188e1a",
            "licence": "Apache-2.0",
            "recorded": "TPU v6 Lite, 4 chips of 8, JAX, 2025-03-11",
        },
        # Two of the copies stand for all whose times the two clocks see differently.
        takes=lambda event: (
            _of_tpu(r"all-reduce", r"jit__psum\(\d+\)", "barrier-cores")(event)
            or (_of_tpu(r"copy-done\.2")(event) and event.plane.endswith(":0"))
        ),
    ),
    "tpu_vllm": Source(
        file="tpu-vllm-b/plugins/profile/run/t1v-n-9eb622fc-w-0.trace.json.gz",
        said={
            "repository": "vllm-project/tpu-inference",
            "path": "profiles/plugins/profile/2026_01_12_00_26_20",
            "commit": "93aca414",
            "licence": "Apache-2.0",
            "recorded": "2 TPUs, chip not stated, vLLM on JAX, 2026-01-12",
        },
        takes=_of_tpu(r"(?:psum|all-(?:reduce|to-all|gather))(?:\.\d+)?", r"jit_\w+\(\d+\)"),
    ),
    "gpu_tensorflow": Source(
        file="gpu-tf-multiworker-2020/plugins/profile/run/34.83.195.179_6003.xplane.pb",
        said={
            "repository": "tensorflow/profiler",
            "path": "demo/plugins/profile/GPU-multi-worker",
            "commit": "d6853e0c",
            "licence": "Apache-2.0",
            "recorded": "GPUs (compute capability 7.0), one host of several, TensorFlow, 2020",
        },
        takes=lambda event: "ollective" in event.name,
    ),
}


def whole(name: str) -> Path:
    """Where the whole recording would be."""
    return WHOLE / SOURCES[name].file


def read(path: Path) -> Trace:
    """The whole recording."""
    content = path.read_bytes()
    if path.name.endswith(".xplane.pb"):
        return read_xplane(content, host=path.name.removesuffix(".xplane.pb"))
    return read_chrome(content, host=path.name.removesuffix(".trace.json.gz"))


def extracted(source: Source, trace: Trace) -> dict[str, Any]:
    """What is written of one recording."""
    texts: dict[str, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def value(worth: str | float) -> str | int | float | list[int]:
        if not isinstance(worth, str):
            return worth
        return int(worth) if worth.isdecimal() else [place(_LATER.sub("", worth))]

    rows = []
    for event in filter(source.takes, trace.events):
        begin_s, lasted_s = event.aligned_s or (event.start_s, event.duration_s)
        where = [place(event.name), place(event.plane), place(event.line)]
        times = [round(begin_s * 1e12), round(lasted_s * 1e12)]
        stats = {key: value(worth) for key, worth in event.stats.items() if key in _KEPT_STATS}
        rows.append([*where, *times, stats])
    return {
        "source": dict(source.said),
        "host": trace.host,
        "planes": list(trace.planes),
        "texts": list(texts),
        "events": rows,
    }


def read_extract(name: str) -> Trace:
    """An extract as the recording that it came from: name, plane, line, begin and length in ps."""
    document = json.loads((DATA / f"{name}.json").read_text())
    texts = document["texts"]

    def worth(found: Any) -> str | int | float:
        text: str | int | float = texts[found[0]] if isinstance(found, list) else found
        return text

    events = []
    for named, plane, line, begin_ps, lasted_ps, noted in document["events"]:
        stats = {key: worth(found) for key, found in noted.items()}
        own_ps = [stats.get(f"device_{part}_ps") for part in ("offset", "duration")]
        own = (
            None if None in own_ps else (float(own_ps[0] or 0) / 1e12, float(own_ps[1] or 0) / 1e12)
        )
        where = (texts[named], texts[plane], texts[line])
        events.append(Event.timed(where, (begin_ps / 1e12, lasted_ps / 1e12), own, stats))
    return Trace(events=tuple(events), host=document["host"], planes=tuple(document["planes"]))


def main(arguments: Sequence[str]) -> None:
    """Write every extract anew."""
    (folder,) = arguments
    for name, source in SOURCES.items():
        document = extracted(source, read(Path(folder) / source.file))
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in document.pop("events"))
        head = json.dumps(document, indent=1).removesuffix("\n}")
        (DATA / f"{name}.json").write_text(f'{head},\n "events": [\n{rows}\n]}}\n')
        print(f"{name}: {rows.count(chr(10)) + 1} events")


if __name__ == "__main__":
    main(sys.argv[1:])
