"""What a worker may answer to each request: a line of its channel at the door, checked once.

A worker runs code that is not ours, under an interpreter that is not ours. What is not the reply
to what was asked ends the worker; it is never half of a result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from busbw import wire
from busbw.model import (
    Clock,
    Compiled,
    Compiler,
    DeviceSet,
    EnvironmentKey,
    Failure,
    Probe,
    Run,
    TrainingAnswer,
    TrainingRun,
    check_compiled,
    check_key,
    check_seconds,
)

from .transport import Reply

# A Run of a thousand ranks has less than one.
MOST_BYTES = 16 * 2**20

_TAKEN: Mapping[str, Any] = {"Run": Run, "Failure": Failure}
# By request; "" is the one of a worker that has just been started.
_NAMES: Mapping[str, Mapping[str, Any]] = {
    "": {"ready": None},
    "probe": {"probe": Probe},
    "measure": _TAKEN,
    "open": {"enough": bool, "Failure": Failure},
    "turn": {"enough": bool, "Failure": Failure},
    "close": _TAKEN,
    "release": {"gone": None},
    "describe": {"Compiler": Compiler},
    "compile": {"Compiled": Compiled, "Failure": Failure},
    "offer": {"offered": None, "Failure": Failure},
    "train": {"TrainingAnswer": TrainingAnswer, "Failure": Failure},
}


@dataclass(frozen=True)
class _Reply:
    reply: str


def checked(line: bytes, request: str) -> Reply:
    """What the reply in `line` to `request` says.

    Raises WireError for anything that is no such reply, with what was expected.
    """
    document = wire.parsed(line)
    if not isinstance(document, dict) or set(document) != {"reply", "value"}:
        raise wire.WireError("expected an object with a reply and a value")
    name = wire.from_json(_Reply, {"reply": document["reply"]}, "reply").reply
    accepted = _NAMES[request]
    if name not in accepted:
        raise wire.WireError(f"reply: expected {' or '.join(accepted)}, got {name[:60]!r}")
    value = document["value"]
    kind = accepted[name]
    if kind is None:
        if value is not None:
            raise wire.WireError(f"{name}: expected no value")
        return Reply(None)
    found = wire.from_json(kind, value, name)
    if kind in _CHECKS:
        try:
            _CHECKS[kind](found)
        except ValueError as error:
            raise wire.WireError(f"{name}.{error}") from error
    return Reply(found)


def _check_run(run: Run) -> None:
    if run.clock not in [clock.value for clock in Clock]:
        raise ValueError(f"clock: expected a clock, got {run.clock[:60]!r}")
    if run.iterations < 1 or run.values_checked < 0:
        raise ValueError("iterations: expected 1 or more, and no values_checked below 0")
    if not run.samples_s:
        raise ValueError("samples_s: expected one or more")
    for name in ("samples_s", "anchors_s"):
        for place, seconds in enumerate(getattr(run, name)):
            check_seconds(f"{name}[{place}]", seconds)
    if run.training is not None:
        _check_trained(run.training)


def _check_trained(run: TrainingRun) -> None:
    if not run.epochs_s:
        raise ValueError("epochs_s: expected one or more")
    for place, seconds in enumerate(run.epochs_s):
        check_seconds(f"epochs_s[{place}]", seconds)
    if run.steps < 1:
        raise ValueError("steps: expected 1 or more")


def _check_probe(probe: Probe) -> None:
    for place, devices in enumerate(probe.devices):
        _check_devices(devices, f"devices[{place}]")


def _check_compiler(compiler: Compiler) -> None:
    if compiler.devices is not None:
        _check_devices(compiler.devices, "devices")


def _check_devices(devices: DeviceSet, where: str) -> None:
    """They become the names of folders and files: kind, mesh and strategies above all."""
    kind = devices.device_kind
    if len(kind) > 100 or not re.search("[a-z0-9]", kind.lower()):
        raise ValueError(f"{where}.device_kind: expected up to 100 characters, got {kind[:60]!r}")
    if not devices.clocks:
        raise ValueError(f"{where}.clocks: expected one or more")
    for name in devices.strategies.values():
        if not name.replace("_", "").isalnum():
            raise ValueError(f"{where}.strategies: expected words, got {name[:60]!r}")
    key = EnvironmentKey(
        device_kind=devices.device_kind,
        ranks=devices.ranks,
        cores=devices.cores,
        mesh=devices.mesh,
        hosts=devices.hosts,
        processes=devices.processes,
    )
    try:
        check_key(key)
    except ValueError as error:
        raise ValueError(f"{where}.{error}") from error


_CHECKS: Mapping[Any, Callable[[Any], None]] = {
    Run: _check_run,
    TrainingAnswer: lambda answer: _check_trained(answer.run),
    Probe: _check_probe,
    Compiler: _check_compiler,
    Compiled: check_compiled,
}
