"""A back end of busbw, opened as a worker opens it; processes that do so, and their figures."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from busbw import grid
from busbw.frameworks import FRAMEWORKS
from busbw.metrics import parse_payload
from busbw.model.case import Case, Spec
from busbw.model.words import Capability, Device
from busbw.model.workload import Workload
from busbw.worker import process
from busbw.worker.backends.base import AbstractBackend


def opened(
    framework: str, ranks: int, payloads: Sequence[str]
) -> tuple[AbstractBackend, Mapping[str, Case]]:
    """The back end on virtual devices, and an all-reduce of each payload by its text.

    Once in a process, before anything heavy is imported: it may start the process anew.
    """
    for name, value in FRAMEWORKS[framework].environment[Capability.MEASURE].items():
        os.environ.setdefault(name, value)
    process.prepare(Device.CPU)
    from busbw.worker.backends import load

    backend = load(framework, Device.CPU, ranks)
    target = grid.choose_target(device=Device.CPU, ranks=ranks, probes=[backend.probe()], named=[])
    specs = {
        text: Spec(
            framework=framework,
            workload=Workload(),
            payload_bytes=parse_payload(text),
            ranks=ranks,
        )
        for text in payloads
    }
    return backend, {text: grid.resolve(spec, target) for text, spec in specs.items()}


def printed(module: str, *options: str) -> Any:
    """The JSON document that this module prints in a process of its own. Raises SystemExit."""
    print(module, *options, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", module, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def spread(found: Sequence[float], form: str) -> str:
    """The median with minimum and maximum."""
    return f"{statistics.median(found):{form}} ({min(found):{form}} to {max(found):{form}})"
