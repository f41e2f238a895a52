"""Where the wall time of a session goes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SWEEPS = {
    "`pytest perf/`": (),
    "`pytest perf/ --launches=1 --payloads=1K:64M`": ("--launches=1", "--payloads=1K:64M"),
}


def lines() -> Iterator[str]:
    """Each sweep's split, as Markdown."""
    for name, options in SWEEPS.items():
        yield from split(name, *measured(options))


def measured(options: Sequence[str]) -> tuple[dict[str, Any], float]:
    """One `pytest perf/` with `options`: its results, and its wall time in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path, baselines = Path(folder) / "results.json", Path(folder) / "baselines"
        # Without any: what is stored here has nothing to do with where the time goes.
        baselines.mkdir()
        command = [sys.executable, "-m", "pytest", "perf/", "-q", f"--results={path}", *options]
        command += [f"--baselines={baselines}", "-p", "no:cacheprovider"]
        begun_s = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - begun_s
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
        return json.loads(path.read_text()), wall_s


def split(name: str, results: Mapping[str, Any], wall_s: float) -> Iterator[str]:
    """Where the time of a session went, as Markdown."""
    within, around = phases_of(results, wall_s)
    yield from ("", f"### {name}", "")
    yield f"{len(results['cases'])} cases, {results['plan']['launches']} launches: measured in "
    yield f"{results['measuring_s']:.0f} s, {wall_s:.0f} s in all."
    yield ""
    yield "| what | s | share |"
    yield "|---|---|---|"
    for what, seconds in {**within, **around}.items():
        yield f"| {what} | {seconds:.1f} | {100 * seconds / wall_s:.0f} % |"


_Spent = dict[str, float]


def phases_of(results: Mapping[str, Any], wall_s: float) -> tuple[_Spent, _Spent]:
    """Return the seconds of a session by what they went to: in the workers, and around them."""
    within: dict[str, float] = defaultdict(float)
    for case in results["cases"]:
        for launch in case["launches"]:
            for name, seconds in launch["phases_s"].items():
                within[name.replace("_", " ")] += seconds
    spent = Counter(results["spent_s"])
    measuring_s = results["measuring_s"]
    return within, {
        "starting workers": spent["starting"],
        "ending workers": spent["ending"],
        "releasing memory, channel": spent["measuring"] - sum(within.values()),
        "the driver, between requests": measuring_s - sum(spent.values()),
        "before and after (collection, probes, report)": wall_s - measuring_s,
    }
