"""Join the other process of a pair by JAX's back end, do one task, and print the result as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from busbw import metrics, wire
from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, Spec
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Failure, LaunchId, Plan, Run
from busbw.model.words import MIB, Device, payload_text
from busbw.stats.launches import launch_time_s
from busbw.worker import host, process, sharing
from busbw.worker.backends.base import MeasuringError
from busbw.worker.measure import MeasureSession

from .. import fidelity, loops
from ..backend import Opened

RANKS = 2
# Small enough that a loop over sockets takes little time.
FIDELITY_PAYLOADS = ("64K", "1M", "16M")
TURNS = 2
# Few samples, so that a part ends soon: nothing is compared with its times.
PLAN = Plan(launches=1, samples=4, budget_s=0.05)
# The memory that the CPU's processes have, as if the machine had no more.
CPU_LIMIT_BYTES = 1024 * MIB
# Payloads to try, relative to the payload at which memory is predicted to end.
_TRIED = (0.5, 0.8, 0.9, 0.96, 0.98, 1.02, 1.04, 1.1, 1.25, 1.5, 2.0, 3.0)


class Joined(Opened):
    """The back end of this process, and cases on the devices of both processes."""

    def __init__(self, device: Device, member: ClusterMember) -> None:
        super().__init__("jax", device, RANKS, member)
        self.rank = member.index
        self._session = MeasureSession(backend=self.backend, launch=LaunchId(name="bench"))

    def measure(self, case: Case, plan: Plan = PLAN) -> Run | Failure:
        spec = Spec(framework="jax", workload=case.workload, payload_bytes=case.payload_bytes)
        result = self._session.measure(case, plan, self.target.key(spec))
        self._session.release()
        return result

    def failure_of(self, case: Case) -> str:
        """Run a case once and check its values; return the message of a failure."""
        try:
            with self.backend.prepared(case) as program:
                program.fresh()
                program.run(program.step)
                program.check(program.step)
        except MeasuringError as error:
            return str(error)
        return ""


def _fidelity(joined: Joined) -> Mapping[str, Any]:
    return {
        payload: fidelity.compared(joined.backend, joined.case(payload), loops.JaxLoop, TURNS)
        for payload in FIDELITY_PAYLOADS
    }


def _flip_bit(joined: Joined) -> Mapping[str, Any]:
    """Flip a bit of a result on rank 1, and return the failure of this process."""
    if joined.rank == 1:
        backend: Any = joined.backend
        make = backend._program

        def flipping(*arguments: Any) -> Any:
            program = make(*arguments)
            call = program._called
            program._called = lambda iterations: _flipped(*call(iterations))
            return program

        backend._program = flipping
    return {"failure": joined.failure_of(joined.case("64K"))}


def _flipped(counted: Any, result: Any) -> tuple[Any, Any]:
    """Return a result with the lowest bit of this rank's middle element flipped."""
    import jax
    import numpy as np

    (shard,) = result.addressable_shards
    values = np.array(shard.data)
    values.view(np.uint32)[values.size // 2] ^= 1
    arrays = [jax.device_put(values, shard.device)]
    return counted, jax.make_array_from_single_device_arrays(result.shape, result.sharding, arrays)


def _recording(joined: Joined) -> Mapping[str, Any]:
    run = joined.measure(joined.case("64K", clock="device"))
    if isinstance(run, Failure):
        return {"problem": run.message}
    proof = {"collectives": run.proof.collectives, "algorithm": run.proof.algorithm}
    return {"proof": proof}


def _collectives(joined: Joined) -> Mapping[str, Any]:
    """Measure every collective at two payloads and in two dtypes."""
    return {
        "rows": [
            _row(joined, joined.case(payload, collective, dtype=dtype))
            for collective in COLLECTIVES
            for dtype in ("float32", "bfloat16")
            for payload in ("1M", "64M")
        ]
    }


def _row(joined: Joined, case: Case) -> dict[str, Any]:
    row = {
        "collective": case.collective,
        "dtype": case.dtype,
        "payload": payload_text(case.payload_bytes),
    }
    run = joined.measure(case)
    if isinstance(run, Failure):
        return {**row, "failure": f"{run.kind.value}: {run.message}"}
    time_s = launch_time_s(run)
    return {
        **row,
        "time_s": time_s,
        "clock": run.clock,
        "busbw_gb_per_s": metrics.busbw_gb_per_s(case, time_s),
        "values_checked": run.values_checked,
    }


def _memory(joined: Joined) -> Mapping[str, Any]:
    """Find the predicted largest payload, and the payloads that did and did not fit."""
    case = joined.case("64M")
    limit_bytes, needed_bytes = _limit_and_need(joined, case)
    predicted = int(case.payload_bytes * limit_bytes / needed_bytes)
    # Processes that try different payloads would wait for each other.
    predicted = int(min(row[0] for row in joined.backend.gathered([float(predicted)])))
    fits, fails, message = 0, 0, ""
    for share in _TRIED:
        tried = max(1, round(share * predicted / MIB)) * MIB
        message = _misfit(joined, joined.case(payload_text(tried)))
        if any(row[0] for row in joined.backend.gathered([float(bool(message))])):
            fails = tried
            break
        fits = tried
    return {
        "limit_bytes": limit_bytes,
        "predicted_payload_bytes": predicted,
        "fits_payload_bytes": fits,
        "fails_payload_bytes": fails,
        "said": message,
    }


def _limit_and_need(joined: Joined, case: Case) -> tuple[int, int]:
    """Return the memory of one process and the compiled or predicted part of a case."""
    if joined.device is Device.CPU:
        room, need = host.headroom(CPU_LIMIT_BYTES), joined.backend.memory_need(case)
        assert room is not None and need is not None
        return room.available_bytes // RANKS, need.needed_bytes
    import jax

    (device,) = jax.local_devices()
    with joined.backend.prepared(case) as program:
        assert program.compiled_memory_bytes is not None
        return int(device.memory_stats()["bytes_limit"]), program.compiled_memory_bytes


def _misfit(joined: Joined, case: Case) -> str:
    """Run a case as little as possible; return the message if memory did not suffice."""
    if joined.device is not Device.CPU:
        return joined.failure_of(case)
    plan = Plan(samples=2, min_sample_s=0.0, budget_s=0.0, memory_limit_bytes=CPU_LIMIT_BYTES)
    run = joined.measure(case, plan)
    return run.message if isinstance(run, Failure) else ""


TASKS: Mapping[str, Callable[[Joined], Mapping[str, Any]]] = {
    "fidelity": _fidelity,
    "wrong": _flip_bit,
    "recording": _recording,
    "collectives": _collectives,
    "memory": _memory,
}


def main(parent: str, device_name: str, task: str, member_json: str) -> None:
    process.tie_to_parent(int(parent))
    # This may start the process anew, which must not happen after `sharing` has changed variables.
    process.prepare(Device(device_name))
    member = wire.from_json(ClusterMember, wire.parsed(member_json), "member")
    sharing.prepare(member)
    print(json.dumps(TASKS[task](Joined(Device(device_name), member))), flush=True)
    # Do not wait for the end of the other process.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
