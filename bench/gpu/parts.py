"""The parts of the benchmark, in the order of their value. Each runs by itself.

A part returns what goes into the JSON file, or raises BenchError where the result is wrong, such as
a regression that was planted and is not found.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.driver.local import alone
from busbw.driver.network import free_ports
from busbw.model import variables
from busbw.model.cluster import Cluster, members_of
from busbw.model.words import Device, payload_text

from .. import processes, sweep
from ..processes import BenchError
from . import recordings
from .member import RANKS

# The case that a delay is planted in. A CPU's limit for a single session is at twice the time.
_PLANTED = "4M"
_DELAY = {Device.GPU: "25%", Device.CPU: "300%"}
# Of the GPU's memory, so that it ends at a payload which sockets move in a second.
_MEMORY_FRACTION = "0.02"
_PAIR_S = 120.0
# For the end of another session on this machine.
_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """`device` is measured, everything is written below `out`, and no part runs after `end_s`."""

    device: Device
    out: Path
    end_s: float | None = None

    @property
    def is_gpu(self) -> bool:
        return self.device is Device.GPU

    @property
    def parts(self) -> Path:
        """Return the folder of what parts write beside their result."""
        return self.out / "parts"

    def left_s(self, most_s: float) -> float:
        """Return the seconds left, `most_s` at most. Raises BenchError if no time is left."""
        left_s = most_s if self.end_s is None else min(most_s, self.end_s - time.monotonic())
        if left_s <= 0:
            raise BenchError("the time is over; name the part in --parts to run it alone")
        return left_s

    def session(self, name: str, *options: str, most_s: float = 600.0, **where: Any) -> Any:
        """Return the results of a session with JAX and one launch."""
        device = () if self.is_gpu else (f"--processes={RANKS}",)
        options = (
            "--frameworks=jax",
            "--launches=1",
            f"--device={self.device.value}",
            *device,
            *options,
        )
        where.setdefault("baselines", self.out / "baselines")
        left_s = self.left_s(most_s)
        return processes.session(self.parts, name, *options, timeout_s=left_s, **where)

    def pair(self, task: str, **environment: str) -> list[Any]:
        """Return the results of two processes that do a task of `member` together."""
        cluster = Cluster(processes=RANKS, shared_devices=1 if self.is_gpu else 0)
        ports = free_ports(RANKS, "127.0.0.1", socket.AF_INET)
        members = members_of(cluster, (f"127.0.0.1:{port}" for port in ports))
        words = (
            sys.executable,
            "-m",
            "bench.gpu.member",
            str(os.getpid()),
            self.device.value,
            task,
        )
        with alone(_WAIT_S):
            return processes.answers(
                [(*words, json.dumps(wire.to_json(member))) for member in members],
                self.parts,
                task,
                timeout_s=self.left_s(_PAIR_S),
                env=variables.with_huge_pages({**os.environ, **environment}),
            )


def measure_sweep(bench: Bench) -> dict[str, Any]:
    """Measure 21 payloads of all-reduce in a session, by the device's clock and the host's."""
    # Large payloads over sockets may not take the time of all other parts.
    timeout = ("--case-timeout=40",) if bench.is_gpu else ()
    results = bench.session(
        "sweep",
        "--clock=device",
        "--update-baselines",
        *timeout,
        exit_codes=(0, 1),
        most_s=170.0 if bench.is_gpu else 600.0,
    )
    environment = results["environment"]
    result = {
        "rows": [_row(case) for case in results["cases"]],
        "environment": environment["key"],
        "why": environment["why"],
        "versions": environment["versions"],
        "session": results["session"]["text"],
        "wall_s": results["wall_s"],
        "spent_s": sweep.phases(results),
    }
    failed = [case["id"] for case in results["cases"] if case["failed"]]
    if failed:
        raise BenchError(f"cases failed: {', '.join(failed)}", result)
    return result


def _row(case: Mapping[str, Any]) -> dict[str, Any]:
    payload = payload_text(case["spec"]["payload_bytes"])
    row = {"payload": payload, "outcome": case["outcome"]}
    if not case["launches"]:
        return {**row, "text": case["text"]}
    (launch,) = case["launches"]
    return {
        **row,
        **{f"{clock}_s": seconds for clock, seconds in launch["clocks_s"].items()},
        **{name: case["figures"][name] for name in ("algbw_gb_per_s", "busbw_gb_per_s")},
        **{name: launch[name] for name in ("values_checked", "peak_memory_bytes")},
    }


def find_wrong_value(bench: Bench) -> dict[str, Any]:
    """Plant a wrong bit in one element of one rank's results, which must be found."""
    failures = [answer["failure"] for answer in bench.pair("wrong")]
    if failures[0] or not failures[1].startswith("rank 1, element "):
        raise BenchError(f"the wrong value was not found: {failures}"[:400])
    return {
        "planted": "1 bit of 1 element on rank 1, 64K",
        "found": f"worker 1: {failures[1]}",
    }


def keep_recording(bench: Bench) -> dict[str, Any]:
    """Record a case with the profiler, and keep the recording."""
    with tempfile.TemporaryDirectory() as folder:
        answer, _ = bench.pair("recording", **{variables.RECORDINGS: folder})
        recording = recordings.keep(Path(folder), bench.out / "recording.xplane.pb")
    return {**recording, **answer}


def compare_with_loop(bench: Bench) -> dict[str, Any]:
    """Compare busbw's times with those of a copy-free loop by hand, in the same processes."""
    answers = bench.pair("fidelity")
    return {
        payload: {
            "ratio": [answer[payload]["ratio"] for answer in answers],
            "busbw_s": max(answer[payload]["busbw_s"] for answer in answers),
            "by_hand_s": max(answer[payload]["by_hand_s"] for answer in answers),
        }
        for payload in answers[0]
    }


def find_memory_end(bench: Bench) -> dict[str, Any]:
    """Find the payload at which memory ends, and compare it with the predicted payload."""
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    name = names[0] if os.environ.get(names[0]) else names[1]
    first, *others = bench.pair("memory", **{name: _MEMORY_FRACTION})
    if not first["fits_payload_bytes"] or not first["fails_payload_bytes"]:
        raise BenchError("memory did not end between the payloads that were tried", first)
    return {**first, "others": others}


def measure_collectives(bench: Bench) -> dict[str, Any]:
    """Measure every collective at two payloads and in two dtypes."""
    result, _ = bench.pair("collectives")
    if all("failure" in row for row in result["rows"]):
        raise BenchError(f"nothing was measured: {result['rows'][0]['failure']}", result)
    return dict(result)


def find_regression(bench: Bench) -> dict[str, Any]:
    """Compare with a baseline an unchanged session, and one with a delay, which must be found."""
    delay = f"delay:{_DELAY[bench.device]}@{_PLANTED}"
    folder = bench.parts / "baselines-of-host-clock"
    shutil.rmtree(folder, ignore_errors=True)
    # The device's clock does not time what runs between collectives.
    words = (f"--payloads={_PLANTED}", "--clock=host")
    session = partial(bench.session, baselines=folder)
    session("regression-baseline", *words, "--update-baselines")
    unchanged = _judged(session("regression-unchanged", *words, exit_codes=(0, 1)))
    planted = _judged(session("regression-planted", *words, f"--inject={delay}", exit_codes=(0, 1)))
    result = {"planted": delay, "unchanged": unchanged, "with_delay": planted}
    # An unchanged session may be too noisy to tell, on a machine that other work shares.
    is_found = planted["outcome"] == "REGRESSED"
    if unchanged["outcome"] not in ("PASS", "IMPROVED", "NOISY") or not is_found:
        outcomes = f"{unchanged['outcome']} and {planted['outcome']}"
        raise BenchError(f"expected PASS and REGRESSED, got {outcomes}", result)
    return result


def _judged(results: Mapping[str, Any]) -> dict[str, Any]:
    (case,) = results["cases"]
    ratios = [launch["injected_ratio"] for launch in case["launches"] if launch["injected_ratio"]]
    return {
        "outcome": case["outcome"],
        "text": case["text"],
        "launches": len(case["launches"]),
        "measured_ratios_with_delay": ratios,
        "ratio": case["figures"].get("ratio"),
        "wall_s": results["wall_s"],
    }


Part = Callable[[Bench], dict[str, Any]]

PARTS: Mapping[str, Part] = {
    "sweep": measure_sweep,
    "wrong": find_wrong_value,
    "recording": keep_recording,
    "fidelity": compare_with_loop,
    "memory": find_memory_end,
    "collectives": measure_collectives,
    "regression": find_regression,
}
