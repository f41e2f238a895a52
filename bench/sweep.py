"""Where the wall time of a session goes, and what pytest's own process does meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_LOOK_S = 0.1

# What the results call the phases of a launch that have a row of their own.
_PHASES = {
    "compiling and proving": "compiling",
    "prefaulting memory": "prefaulting",
    "laying out values": "laying_out",
    "warming up and calibrating": "warming_up",
    "sampling": "sampling",
    "checking values": "checking",
}


def measured(options: Sequence[str]) -> dict[str, Any]:
    """One `pytest perf/` with `options`: its results, wall time, and how often pytest ran."""
    with tempfile.TemporaryDirectory() as folder:
        path, baselines = Path(folder) / "results.json", Path(folder) / "baselines"
        # Without any: what is stored here has nothing to do with where the time goes.
        baselines.mkdir()
        command = [sys.executable, "-m", "pytest", "perf/", "-q", f"--results={path}", *options]
        command += [f"--baselines={baselines}", "-p", "no:cacheprovider"]
        begun_s = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            quiet, looks = _watch(process)
            wall_s = time.monotonic() - begun_s
            assert process.stdout is not None
            output = process.stdout.read().decode()
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{output[-2000:]}")
        return {
            "results": json.loads(path.read_text()),
            "wall_s": wall_s,
            "quiet": quiet,
            "looks": looks,
        }


def _watch(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """In how many stretches between two looks pytest was never scheduled, and of how many.

    Its pipe holds what it prints: a session's output is smaller than a pipe.
    """
    quiet = looks = 0
    last = -1
    while process.poll() is None:
        time.sleep(_LOOK_S)
        switches = _switches(process.pid)
        if last >= 0 and switches >= 0:
            looks += 1
            quiet += switches == last
        last = switches
    return quiet, looks


def _switches(pid: int) -> int:
    """How often the process has been scheduled so far; -1 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return -1
    counts = [line.split()[1] for line in status.splitlines() if "ctxt_switches" in line]
    return sum(map(int, counts)) if counts else -1


def lines(name: str, found: dict[str, Any]) -> Iterator[str]:
    """The split as Markdown."""
    results = found["results"]
    phases: Counter[str] = Counter()
    for case in results["cases"]:
        for launch in case["launches"]:
            phases.update(launch["phases_s"])
    spent = Counter(results["spent_s"])
    measuring_s = results["measuring_s"]
    named = {label: phases[name] for label, name in _PHASES.items()}
    split = {
        **named,
        "recording, injecting, waiting for a turn": sum(phases.values()) - sum(named.values()),
        "starting workers": spent["starting"],
        "ending workers": spent["ending"],
        "releasing memory, channel": spent["measuring"] - sum(phases.values()),
        "the driver, between requests": measuring_s - sum(spent.values()),
        "before and after (collection, probes, report)": found["wall_s"] - measuring_s,
    }
    yield ""
    yield f"### {name}"
    yield ""
    yield f"{len(results['cases'])} cases, {results['plan']['launches']} launches: measured in "
    yield f"{measuring_s:.0f} s, {found['wall_s']:.0f} s in all. pytest's own process was not "
    yield f"scheduled at all in {found['quiet']} of {found['looks']} stretches of {_LOOK_S:g} s."
    yield ""
    yield "| what | s | share |"
    yield "|---|---|---|"
    for what, seconds in split.items():
        yield f"| {what} | {seconds:.1f} | {100 * seconds / found['wall_s']:.0f} % |"
