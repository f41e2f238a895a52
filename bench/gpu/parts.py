"""The parts of the benchmark, the most useful first. Each part can run by itself.

A part returns its results for the JSON file, in which `rows` are the rows of a table. It raises
BenchError if busbw is wrong, for example if it does not find a planted regression.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.driver.local import find_free_addresses, lock_this_machine
from busbw.extensions.profiles.recordings import find_collectives, read_events
from busbw.model import variables
from busbw.model.machine import ProcessGroupSize, group_members
from busbw.model.words import MIB, DeviceClass, payload_text

from .. import processes, sweep
from ..processes import BenchError

RANKS = 2
MOST_RECORDED_BYTES = 2 * MIB
# The payload of the case in which a delay is planted. On a CPU, where a baseline of one session has
# a limit of twice the time, the delay must be large.
_PLANTED_PAYLOAD = "4M"
_DELAY = {DeviceClass.GPU: "25%", DeviceClass.CPU: "300%"}
# The processes may use this share of the GPU's memory, so that memory ends at a payload that
# sockets move within a second.
_MEMORY_FRACTION = "0.02"
_PAIR_TIMEOUT_S = 120.0
# How long to wait for the end of another session on this machine.
_LOCK_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The settings of the benchmark, and the functions with which its parts measure.

    `device` is the kind of device. All files are written below `output_folder`. No part starts
    after `deadline_s`, a time of the monotonic clock in seconds.
    """

    device: DeviceClass
    output_folder: Path
    deadline_s: float = math.inf

    def remaining_s(self, max_s: float) -> float:
        """Return the seconds until the end of the benchmark, but at most `max_s`.

        Raises BenchError if the time is over.
        """
        remaining_s = min(max_s, self.deadline_s - time.monotonic())
        if remaining_s <= 0:
            raise BenchError("the time is over; name the part in --parts to run it alone")
        return remaining_s

    def run_session(
        self, name: str, *options: str, max_s: float = 600.0, **session_arguments: Any
    ) -> Any:
        """Run a session with JAX and one launch, and return its results, whatever its verdict.

        `name` is the name of its files, `options` are its options, and `max_s` is its timeout in
        seconds. `session_arguments` are further arguments of `bench.processes.run_session`.
        """
        # On a single GPU, a session starts two processes without this option.
        joined = () if self.device is DeviceClass.GPU else (f"--processes={RANKS}",)
        words = ("--frameworks=jax", "--launches=1", f"--device={self.device.value}", *joined)
        with tempfile.TemporaryDirectory() as empty:
            # A session without baselines takes no additional launches.
            session_arguments = {
                "baselines": Path(empty),
                "timeout_s": self.remaining_s(max_s),
                **session_arguments,
            }
            return processes.run_session(
                self.output_folder, name, *words, *options, exit_codes=(0, 1), **session_arguments
            )

    def run_pair(self, task: str, memory_fraction: str = "", **fields: Any) -> list[Any]:
        """Run two processes that do a task of `bench.member` together, and return their results.

        `memory_fraction` is the share of the GPU's memory for each process, empty for JAX's
        default. `fields` are values of the request.
        """
        cluster = ProcessGroupSize(
            processes=RANKS, shared_devices=int(self.device is DeviceClass.GPU)
        )
        members = group_members(cluster, find_free_addresses(RANKS, "127.0.0.1"))
        request = {"task": task, "framework": "jax", "device": self.device.value, "ranks": RANKS}
        requests = [{**request, **fields, "member": wire.to_json(member)} for member in members]
        names = {"XLA_PYTHON_CLIENT_MEM_FRACTION": memory_fraction} if memory_fraction else {}
        with lock_this_machine(_LOCK_WAIT_S):
            return processes.run_members(
                requests, self.output_folder, self.remaining_s(_PAIR_TIMEOUT_S), names
            )


def _case_rows(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each case in the results of a session, with figures of its first launch."""
    rows = []
    for case in results["cases"]:
        spec = case["spec"]
        row = {"collective": spec["collective"], "dtype": spec["dtype"]}
        row |= {"payload": payload_text(spec["payload_bytes"])}
        for launch in case["launches"][:1]:
            row |= {f"{clock}_s": seconds for clock, seconds in launch["clocks_s"].items()}
            row |= {"busbw_gb_per_s": case["figures"].get("busbw_gb_per_s")}
            row |= {name: launch[name] for name in ("values_checked", "peak_memory_bytes")}
        rows.append({**row, "outcome": case["outcome"], "text": case["text"]})
    return rows


def measure_sweep(bench: Bench) -> dict[str, Any]:
    """Measure an all-reduce of 21 payloads in a session, by the clocks of the device and the host.

    Raises BenchError if a case failed.
    """
    options, max_s = ["--clock=device", "--update-baselines"], 600.0
    if bench.device is DeviceClass.GPU:
        # Large payloads over sockets must not take the time that the other parts need.
        options, max_s = [*options, "--case-timeout=40"], 170.0
    baselines = bench.output_folder / "baselines"
    results = bench.run_session("sweep", *options, max_s=max_s, baselines=baselines)
    result = {
        "rows": _case_rows(results),
        "environment": results["environment"]["key"],
        "versions": results["environment"]["versions"],
        "session": results["session"]["text"],
        "wall_s": results["wall_s"],
        "spent_s": sweep.phase_seconds(results),
    }
    failed = [case["id"] for case in results["cases"] if case["failed"]]
    if failed:
        raise BenchError(f"cases failed: {', '.join(failed)}", result)
    return result


def find_wrong_value(bench: Bench) -> dict[str, Any]:
    """Plant a wrong bit in one element of one rank's result, and check that busbw finds it."""
    failures = [answer["failure"] for answer in bench.run_pair("wrong")]
    if failures[0] or not failures[1].startswith("rank 1, element "):
        raise BenchError(f"the wrong value was not found: {failures}"[:400])
    return {"planted": "1 bit of 1 element on rank 1, 64K", "failure": failures[1]}


def keep_recording(bench: Bench) -> dict[str, Any]:
    """Record a case with the profiler, keep a recording, and list events that may be collectives.

    Raises BenchError if the profiler wrote no recording.
    """
    with tempfile.TemporaryDirectory() as folder:
        setting = {variables.RECORDINGS_VARIABLE: folder}
        results = bench.run_session(
            "recording", "--payloads=64K", "--clock=device", variables=setting
        )
        recordings = list(Path(folder).rglob("*.xplane.pb"))
        if not recordings:
            raise BenchError(f"the profiler left no *.xplane.pb: {results['cases'][0]['text']}")
        recording = min(recordings, key=lambda path: path.stat().st_size)
        rows, content = event_rows(recording), recording.read_bytes()
    if len(content) <= MOST_RECORDED_BYTES:
        (bench.output_folder / "recording.xplane.pb").write_bytes(content)
    proofs = [launch["proof"] for case in results["cases"] for launch in case["launches"]]
    return {"bytes": len(content), "proofs": proofs, "rows": rows}


def event_rows(recording: Path) -> list[dict[str, Any]]:
    """Return a row for each kind of event in a recording that may be a collective.

    ``known_as`` is the collective that busbw recognizes in the event, empty for no collective.
    """
    counts = Counter[tuple[str, str, str]]()
    for event in read_events(recording, max_bytes=1024 * MIB):
        kind = "".join(collective.kind for collective in find_collectives([event], ""))
        if kind or "nccl" in event.name.lower():
            counts[event.plane, event.name, kind] += 1
    return [
        {"plane": plane, "name": name, "known_as": kind, "count": count}
        for (plane, name, kind), count in counts.most_common(40)
    ]


def compare_with_loop(bench: Bench) -> dict[str, Any]:
    """Compare busbw's times with the times of a loop written by hand, in the same processes."""
    # Small enough that a loop over sockets takes little time.
    results = bench.run_pair("fidelity", payloads=["64K", "1M", "16M"], allocations=2)
    rows = [
        {"payload": payload, "rank": rank, **result[payload]}
        for payload in results[0]
        for rank, result in enumerate(results)
    ]
    return {"rows": rows}


def find_memory_end(bench: Bench) -> dict[str, Any]:
    """Find the payload at which memory runs out, and return it with the predicted payload.

    Raises BenchError if all payloads fitted, or no payload fitted.
    """
    result: dict[str, Any] = bench.run_pair("memory", memory_fraction=_MEMORY_FRACTION)[0]
    if not result["fits_payload_bytes"] or not result["fails_payload_bytes"]:
        raise BenchError("memory did not end between the payloads that were tried", result)
    return result


def find_regression(bench: Bench) -> dict[str, Any]:
    """Compare an unchanged session and a session with a planted delay with a baseline.

    Raises BenchError if the unchanged session regressed, or the delayed session did not.
    """
    delay = f"delay:{_DELAY[bench.device]}@{_PLANTED_PAYLOAD}"
    options = {"baseline": "--update-baselines", "unchanged": "", "planted": f"--inject={delay}"}
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, option in options.items():
            # The delay runs between collectives, where the device's clock does not see it.
            words = [
                f"--payloads={_PLANTED_PAYLOAD}",
                "--clock=host",
                *([option] if option else []),
            ]
            results = bench.run_session(f"regression-{name}", *words, baselines=Path(folder))
            (row,) = _case_rows(results)
            rows[name] = {"session": name, **row, "ratio": results["cases"][0]["ratio"]}
    result = {"planted": delay, "rows": list(rows.values())}
    unchanged, planted = rows["unchanged"]["outcome"], rows["planted"]["outcome"]
    # On a machine with other work, an unchanged session may be too noisy to decide.
    if unchanged not in ("PASS", "IMPROVED", "NOISY") or planted != "REGRESSED":
        raise BenchError(f"expected PASS and REGRESSED, got {unchanged} and {planted}", result)
    return result


Part = Callable[[Bench], dict[str, Any]]

PARTS: Mapping[str, Part] = {
    "sweep": measure_sweep,
    "wrong": find_wrong_value,
    "recording": keep_recording,
    "fidelity": compare_with_loop,
    "memory": find_memory_end,
    "regression": find_regression,
}
