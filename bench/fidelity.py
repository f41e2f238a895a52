"""busbw's time per all-reduce over that of a loop written by hand, in several processes.

Launches of one and the same loop differ by 5 to 35 %, so the two take turns within a process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

PAYLOADS = ("1K", "64K", "1M", "16M", "128M")
RANKS = (2, 4)
FRAMEWORKS = ("jax", "tensorflow")


def measured(processes: int, tell: Callable[[str], None]) -> dict[tuple[str, int], list[Any]]:
    """What every process found, by framework and ranks."""
    found: dict[tuple[str, int], list[Any]] = {}
    for number in range(processes):
        for framework in FRAMEWORKS:
            for ranks in RANKS:
                tell(f"fidelity: process {number + 1}/{processes}, {framework}, {ranks} ranks")
                found.setdefault((framework, ranks), []).append(_process(framework, ranks))
    return found


def _process(framework: str, ranks: int) -> Any:
    command = [sys.executable, "-m", "bench.pairs", f"--framework={framework}", f"--ranks={ranks}"]
    command += [f"--payloads={','.join(PAYLOADS)}"]
    command += ["--others"] if framework == "jax" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def lines(found: dict[tuple[str, int], list[Any]]) -> Iterator[str]:
    """A table of ratios for each framework and number of ranks, as Markdown."""
    for (framework, ranks), processes in found.items():
        others = [name for name in processes[0][PAYLOADS[0]]["theirs_s"]]
        yield ""
        yield f"### {framework}, {ranks} ranks, {len(processes)} processes"
        yield ""
        beside = "".join(f" | {name}" for name in others[1:])
        yield f"| payload | busbw, us | busbw / {others[0]} (least to most){beside} |"
        yield "|---" * (3 + len(others) - 1) + "|"
        for payload in PAYLOADS:
            yield _row(payload, [process[payload] for process in processes], others)


def _row(payload: str, found: list[Any], others: list[str]) -> str:
    ratios = [one["ratio"] for one in found]
    own_us = statistics.median(one["own_s"] for one in found) * 1e6
    ratio = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    beside = []
    for name in others[1:]:
        over = [one["theirs_s"][name] / one["own_s"] for one in found]
        beside.append(f"{statistics.median(over):.2f} x ({min(over):.2f} to {max(over):.2f})")
    return f"| {' | '.join([payload, f'{own_us:.4g}', ratio, *beside])} |"
