"""The parts of the benchmark, in the order of their value. Each runs by itself.

A part returns what goes into the JSON file, or raises PartError where the result is not the right
one, such as a regression that was planted and is not found.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.sweep import phases_of
from busbw import metrics
from busbw.model import variables
from busbw.model.launch import Failure, Run
from busbw.model.words import FailureKind, payload_text
from busbw.stats.launches import launch_time_s

from . import groups, pair, recordings
from .bench import Bench, PartError, session

PAYLOADS = ("1M", "64M")
DTYPES = ("float32", "bfloat16")
# The case that a delay is planted in. A CPU's limit for a single session is at twice the time.
_PLANTED = "4M"
_DELAY = {True: "25%", False: "300%"}
# Of the GPU's memory, so that it ends at a payload which sockets move in a second.
_MEMORY_FRACTION = "0.02"
_RECORDING = "recording.xplane.pb"
_SWEEP_S = 170.0


def sweep(bench: Bench) -> dict[str, Any]:
    """Measure 21 payloads of all-reduce in a session, by the device's clock and the host's."""
    # Large payloads over sockets may not take the time of all other parts.
    timeout = ("--case-timeout=40",) if bench.is_gpu else ()
    options = ("--clock=device", "--update-baselines", *timeout)
    most_s = _SWEEP_S if bench.is_gpu else 600.0
    found = session(bench, "sweep", *options, exit_codes=(0, 1), most_s=most_s)
    phases, rest = phases_of(found, found["wall_s"])
    result = {
        "rows": [_row(case) for case in found["cases"]],
        "environment": found["environment"]["key"],
        "why": found["environment"]["why"],
        "versions": found["environment"]["versions"],
        "session": found["session"]["text"],
        "wall_s": found["wall_s"],
        "spent_s": {**phases, **rest},
    }
    failed = [case["id"] for case in found["cases"] if case["failed"]]
    if failed:
        raise PartError(f"cases failed: {', '.join(failed)}", result)
    return result


def _row(case: Mapping[str, Any]) -> dict[str, Any]:
    payload_bytes = case["spec"]["payload_bytes"]
    row = {"payload": payload_text(payload_bytes), "outcome": case["outcome"]}
    if not case["launches"]:
        return {**row, "text": case["text"]}
    (launch,) = case["launches"]
    figures = case["figures"]
    return {
        **row,
        **{f"{clock}_s": seconds for clock, seconds in launch["clocks_s"].items()},
        "algbw_gb_per_s": figures["algbw_gb_per_s"],
        "busbw_gb_per_s": figures["busbw_gb_per_s"],
        "values_checked": launch["values_checked"],
        "peak_memory_bytes": launch["peak_memory_bytes"],
    }


def wrong(bench: Bench) -> dict[str, Any]:
    """Plant a wrong bit in one element of one rank's results, which must be found."""
    with groups.measuring(bench, patched=True) as group:
        answer = group.measure(group.case("64K"))
    if not isinstance(answer, Failure) or answer.kind is not FailureKind.WRONG_RESULT:
        raise PartError(f"the wrong value was not found: {answer}"[:400])
    return {"planted": "1 bit of 1 element on rank 1, 64K", "found": answer.message}


def recording(bench: Bench) -> dict[str, Any]:
    """Record a case with the profiler, and keep the recording."""
    with tempfile.TemporaryDirectory() as folder:
        with groups.measuring(bench, environment={variables.RECORDINGS: folder}) as group:
            answer = group.measure(group.case("64K", clock="device"))
        kept = recordings.kept(Path(folder), bench.out / _RECORDING)
    if isinstance(answer, Failure):
        return {**kept, "problem": answer.message}
    proof = {"collectives": answer.proof.collectives, "algorithm": answer.proof.algorithm}
    return {**kept, "proof": proof}


def fidelity(bench: Bench) -> dict[str, Any]:
    """Compare busbw's times with those of a copy-free loop by hand, in the same processes."""
    found = pair.answers(bench, "fidelity", most_s=120)
    return {
        payload: {
            "ratio": [one[payload]["ratio"] for one in found],
            "busbw_s": max(one[payload]["own_s"] for one in found),
            "by_hand_s": max(
                seconds for one in found for seconds in one[payload]["theirs_s"].values()
            ),
        }
        for payload in found[0]
    }


def regression(bench: Bench) -> dict[str, Any]:
    """Compare with a baseline an unchanged session, and one with a delay, which must be found."""
    delay = f"delay:{_DELAY[bench.is_gpu]}@{_PLANTED}"
    # The device's clock does not time what runs between collectives.
    options = (f"--payloads={_PLANTED}", "--clock=host")
    folder = bench.parts / "baselines-of-host-clock"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ran = partial(session, bench, stored=folder)
    ran("regression-baseline", *options, "--update-baselines")
    unchanged = _judged(ran("regression-unchanged", *options, exit_codes=(0, 1)))
    planted = _judged(ran("regression-planted", *options, f"--inject={delay}", exit_codes=(0, 1)))
    found = {"planted": delay, "unchanged": unchanged, "with_delay": planted}
    outcomes = unchanged["outcome"], planted["outcome"]
    # An unchanged session may be too noisy to tell, on a machine that other work shares.
    if outcomes[0] not in ("PASS", "IMPROVED", "NOISY") or outcomes[1] != "REGRESSED":
        raise PartError(f"expected PASS and REGRESSED, got {' and '.join(outcomes)}", found)
    return found


def _judged(found: Mapping[str, Any]) -> dict[str, Any]:
    (case,) = found["cases"]
    ratios = [one["injected_ratio"] for one in case["launches"] if one["injected_ratio"]]
    return {
        "outcome": case["outcome"],
        "text": case["text"],
        "launches": len(case["launches"]),
        "measured_ratios_with_delay": ratios,
        "ratio": case["figures"].get("ratio"),
        "wall_s": found["wall_s"],
    }


def collectives(bench: Bench) -> dict[str, Any]:
    """Measure every collective at two payloads and in two dtypes."""
    rows: list[dict[str, Any]] = []
    with groups.measuring(bench) as group:
        for own in (
            {"collective": "all_reduce"},
            {"collective": "all_gather", "reduce_op": "none"},
            {"collective": "reduce_scatter"},
            {"collective": "all_to_all", "reduce_op": "none"},
            {"collective": "permute", "reduce_op": "none"},
        ):
            for dtype in DTYPES:
                for payload in PAYLOADS:
                    rows.append(_measured(group, payload, dtype, own))
    failed = [row for row in rows if "failure" in row]
    if len(failed) == len(rows):
        raise PartError(f"none was measured: {failed[0]['failure']}", {"rows": rows})
    return {"rows": rows}


def _measured(
    group: groups.Measuring, payload: str, dtype: str, own: Mapping[str, str]
) -> dict[str, Any]:
    row: dict[str, Any] = {"collective": own["collective"], "dtype": dtype, "payload": payload}
    if group.group.is_over:
        return {**row, "failure": "the group was over"}
    case = group.case(payload, dtype=dtype, **groups.whole(own))
    answer = group.measure(case)
    if isinstance(answer, Failure):
        return {**row, "failure": f"{answer.kind.value}: {answer.message}"}
    assert isinstance(answer, Run)
    seconds = launch_time_s(answer)
    return {
        **row,
        "time_s": seconds,
        "clock": answer.clock,
        "busbw_gb_per_s": metrics.busbw_gb_per_s(case, seconds),
        "values_checked": answer.values_checked,
    }


def memory(bench: Bench) -> dict[str, Any]:
    """Find the payload at which memory ends, and compare it with the predicted one."""
    name = "XLA_CLIENT_MEM_FRACTION"
    name = name if os.environ.get(name) else "XLA_PYTHON_CLIENT_MEM_FRACTION"
    found = pair.answers(bench, "memory", most_s=120, environment={name: _MEMORY_FRACTION})
    first: dict[str, Any] = found[0]
    if not first["fits_payload_bytes"] or not first["fails_payload_bytes"]:
        raise PartError("memory did not end between the payloads that were tried", first)
    return {**first, "others": found[1:]}


PARTS: Mapping[str, Callable[[Bench], dict[str, Any]]] = {
    one.__name__: one
    for one in (sweep, wrong, recording, fidelity, memory, collectives, regression)
}
