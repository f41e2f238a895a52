"""Do a task of a benchmark with a back end of busbw, in a process that was started for the task.

The request is a JSON argument of the command line. The result is JSON in the last line of the
output. In a group of processes, each process does the same task.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from busbw import grid, wire
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case, CaseSpec
from busbw.model.machine import GroupMember
from busbw.model.words import MIB, DeviceClass, parse_payload, payload_text
from busbw.worker import __main__
from busbw.worker.backends.base import Backend, MeasuringError

from . import fidelity
from .loops import LOOPS

# The memory that a process on the CPU may use, as if the machine had no more.
_CPU_MEMORY_BYTES = 256 * MIB
# Payloads to try, as shares of the largest payload that is predicted to fit into memory.
_TRIED_SHARES = (0.5, 0.8, 0.9, 0.96, 0.98, 1.02, 1.04, 1.1, 1.25, 1.5, 2.0, 3.0)


class OpenBackend:
    """A back end of busbw in this process, and the devices for its cases.

    It must be made before the framework is imported. `member` identifies this process in a group;
    None for a single process.
    """

    def __init__(
        self, framework: str, device: DeviceClass, ranks: int, member: GroupMember | None
    ) -> None:
        for name, value in FRAMEWORKS[framework].environment.items():
            os.environ.setdefault(name, value)
        __main__.set_framework_variables(device)
        if member is not None:
            os.environ.update(__main__.shared_gpu_variables(member, os.environ))
        from busbw.worker.backends import load

        self.framework, self.ranks = framework, ranks
        self.rank = member.index if member is not None else 0
        self.backend: Backend = load(framework, device, ranks, member)
        # In a group the driver would merge the probes of all processes, which are equal.
        probe = self.backend.probe()
        self._target = grid.choose_devices(
            device=device, ranks=ranks, probes=[probe], named_frameworks=[]
        )

    def make_case(self, payload: str) -> Case:
        """Return the case of an all-reduce of a payload such as ``64K``."""
        spec = CaseSpec(
            framework=self.framework,
            payload_bytes=parse_payload(payload),
            ranks=self.ranks,
        )
        return grid.resolve_case(spec, self._target)[0]

    def find_failure(self, case: Case, limit_bytes: float = math.inf) -> str:
        """Run a case once and check its values; return the message of a failure.

        The message is empty if the values are right. On the CPU, a case also fails if it needs more
        than `limit_bytes` of memory.
        """
        need = self.backend.memory_need(case)
        if need is not None and need.needed_bytes > limit_bytes:
            return f"{need.needed_bytes} bytes needed, {limit_bytes} available"
        try:
            with self.backend.prepare_program(case) as program:
                program.initialize_values()
                program.run(program.iterations_per_turn)
                program.check_result(program.iterations_per_turn)
        except MeasuringError as error:
            return str(error)
        return ""


def _compare_with_loop(open_backend: OpenBackend, request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare busbw's time with the time of a loop written by hand, for each requested payload."""
    backend, make_loop, allocations = (
        open_backend.backend,
        LOOPS[open_backend.framework],
        request["allocations"],
    )
    return {
        payload: fidelity.compare(backend, open_backend.make_case(payload), make_loop, allocations)
        for payload in request["payloads"]
    }


def _plant_wrong_bit(open_backend: OpenBackend, request: Mapping[str, Any]) -> dict[str, Any]:
    """Flip a bit in the middle element of rank 1's result, and return the failure of this process.

    The failure is empty in the process of rank 0, whose result is right.
    """
    import jax
    import numpy as np

    from busbw.worker.backends.jax.program import JaxProgram

    call = JaxProgram._run_and_count_turns

    def flipped(program: JaxProgram, iterations: int) -> tuple[Any, Any]:
        counted, result = call(program, iterations)
        (shard,) = result.addressable_shards
        values = np.array(shard.data)
        # Rank 0 flips nothing.
        values.view(np.uint32)[values.size // 2] ^= open_backend.rank
        arrays = [jax.device_put(values, shard.device)]
        return counted, jax.make_array_from_single_device_arrays(
            result.shape, result.sharding, arrays
        )

    with mock.patch.object(JaxProgram, "_run_and_count_turns", flipped):
        return {"failure": open_backend.find_failure(open_backend.make_case("64K"))}


def _find_memory_end(open_backend: OpenBackend, request: Mapping[str, Any]) -> dict[str, Any]:
    """Try increasing payloads until memory runs out.

    Returns the memory limit, the largest payload that was predicted to fit, the largest payload
    that fitted, the first payload that did not fit, and the message of the failure. If all payloads
    fitted, the first payload that did not fit is 0.
    """
    limit_bytes, needed_bytes = _memory_limit_and_need(open_backend, open_backend.make_case("64M"))
    predicted = 64 * MIB * limit_bytes // needed_bytes
    fits, fails, message = 0, 0, ""
    for share in _TRIED_SHARES:
        tried = max(1, round(share * predicted / MIB)) * MIB
        message = open_backend.find_failure(
            open_backend.make_case(payload_text(tried)), limit_bytes
        )
        if any(row[0] for row in open_backend.backend.all_gather([float(bool(message))])):
            fails = tried
            break
        fits = tried
    return {
        "limit_bytes": limit_bytes,
        "predicted_payload_bytes": predicted,
        "fits_payload_bytes": fits,
        "fails_payload_bytes": fails,
        "failure": message,
    }


def _memory_limit_and_need(open_backend: OpenBackend, case: Case) -> tuple[int, int]:
    """Return the memory that this process may use, and the memory that a case needs, in bytes.

    The need is predicted by busbw on the CPU, and is the compiler's figure on other devices.
    """
    need = open_backend.backend.memory_need(case)
    if need is not None:
        return _CPU_MEMORY_BYTES, need.needed_bytes
    import jax

    with open_backend.backend.prepare_program(case) as program:
        assert program.compiled_memory_bytes is not None
        return int(
            jax.local_devices()[0].memory_stats()["bytes_limit"]
        ), program.compiled_memory_bytes


_TASKS: Mapping[str, Callable[[OpenBackend, Mapping[str, Any]], dict[str, Any]]] = {
    "fidelity": _compare_with_loop,
    "wrong": _plant_wrong_bit,
    "memory": _find_memory_end,
}


def main(text: str) -> None:
    request = json.loads(text)
    __main__.end_with_parent(request["parent"])
    member = request.get("member")
    member = wire.from_json(GroupMember, member, "member") if member else None
    open_backend = OpenBackend(
        request["framework"], DeviceClass(request["device"]), request["ranks"], member
    )
    print(json.dumps(_TASKS[request["task"]](open_backend, request)), flush=True)
    # A normal exit would wait for the end of the other process.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
