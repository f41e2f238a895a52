"""One process of a pair: joins the other by JAX's back end, does one thing, writes an answer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import fidelity, loops
from busbw import grid, wire
from busbw.metrics import parse_payload
from busbw.model.case import Case, Spec
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Failure, LaunchId, Plan
from busbw.model.words import MIB, Device
from busbw.model.workload import Workload
from busbw.worker import host, process, sharing
from busbw.worker.backends.base import AbstractBackend, MeasuringError
from busbw.worker.measure import MeasureSession

from .bench import RANKS

# Small enough that a loop over sockets takes little time.
FIDELITY_PAYLOADS = ("64K", "1M", "16M")
TURNS = 2

# The memory that the CPU's processes have, as if the machine had no more.
CPU_LIMIT_BYTES = 1024 * MIB
_COMPILED_BYTES = 64 * MIB
# Payloads that are tried, relative to the one at which memory is predicted to end.
_TRIED = (0.5, 0.8, 0.9, 0.96, 0.98, 1.02, 1.04, 1.1, 1.25, 1.5, 2.0, 3.0)


class Joined:
    """The back end of this process, and cases on what both processes have."""

    def __init__(self, device: Device, member: ClusterMember) -> None:
        from busbw.worker.backends import load

        self.device = device
        self.backend: AbstractBackend = load("jax", device, RANKS, member)
        # As the driver puts it together of both answers, which are alike.
        probe = self.backend.probe()
        self.target = grid.choose_target(device=device, ranks=RANKS, probes=[probe], named=[])

    def case(self, payload_bytes: int) -> Case:
        spec = Spec(framework="jax", workload=Workload(), payload_bytes=payload_bytes)
        return grid.resolve(spec, self.target)


def _fidelity(joined: Joined) -> Mapping[str, Any]:
    """Ratios of busbw's times over those of a copy-free loop written by hand, by payload."""
    cases = {text: joined.case(parse_payload(text)) for text in FIDELITY_PAYLOADS}
    made = (loops.JaxCopyFree,)
    return {
        text: fidelity.pairs(joined.backend, case, made, turns=TURNS)
        for text, case in cases.items()
    }


def _memory(joined: Joined) -> Mapping[str, Any]:
    """Find the predicted largest payload, and the payloads that did and did not fit."""
    case = joined.case(_COMPILED_BYTES)
    limit_bytes, needed_bytes = _limit_and_need(joined, case)
    predicted = int(_COMPILED_BYTES * limit_bytes / needed_bytes)
    # Processes that tried other payloads would wait for each other.
    predicted = int(min(row[0] for row in joined.backend.gathered([float(predicted)])))
    fits, fails, said = 0, 0, ""
    for share in _TRIED:
        tried = max(1, round(share * predicted / MIB)) * MIB
        said = _fit(joined, joined.case(tried))
        if any(row[0] for row in joined.backend.gathered([float(bool(said))])):
            fails = tried
            break
        fits = tried
    return {
        "limit_bytes": limit_bytes,
        "predicted_payload_bytes": predicted,
        "fits_payload_bytes": fits,
        "fails_payload_bytes": fails,
        "said": said,
    }


def _limit_and_need(joined: Joined, case: Case) -> tuple[int, int]:
    """Return the memory of one process and the compiled or predicted part of a case."""
    if joined.device is Device.CPU:
        room, need = host.headroom(CPU_LIMIT_BYTES), joined.backend.memory_need(case)
        assert room is not None and need is not None
        return room.available_bytes // RANKS, need.needed_bytes
    import jax

    (own,) = jax.local_devices()
    with joined.backend.prepared(case) as program:
        assert program.compiled_memory_bytes is not None
        return int(own.memory_stats()["bytes_limit"]), program.compiled_memory_bytes


def _fit(joined: Joined, case: Case) -> str:
    """Run a case as little as it can be; return what was said where memory did not suffice."""
    if joined.device is Device.CPU:
        session = MeasureSession(backend=joined.backend, launch=LaunchId(name="bench"))
        plan = Plan(samples=2, min_sample_s=0.0, budget_s=0.0, memory_limit_bytes=CPU_LIMIT_BYTES)
        spec = Spec(framework="jax", workload=case.workload, payload_bytes=case.payload_bytes)
        found = session.measure(case, plan, joined.target.key(spec))
        session.release()
        return found.message if isinstance(found, Failure) else ""
    try:
        with joined.backend.prepared(case) as program:
            program.fresh()
            program.run(program.step)
            program.check(program.step)
    except MeasuringError as error:
        return str(error)
    return ""


DOINGS: Mapping[str, Callable[[Joined], Mapping[str, Any]]] = {
    "fidelity": _fidelity,
    "memory": _memory,
}


def main() -> None:
    parent, device_name, doing, path, said = sys.argv[1:]
    process.tie_to_parent(int(parent))
    device = Device(device_name)
    process.prepare(device)
    member = wire.from_json(ClusterMember, wire.parsed(said), "member")
    sharing.prepare(member)
    answer = DOINGS[doing](Joined(device, member))
    whole = Path(path).with_suffix(".part")
    whole.write_text(json.dumps(answer))
    whole.replace(path)
    # The end of the other process is not waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
