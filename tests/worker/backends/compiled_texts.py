"""The programs that measure, as XLA's compilers for chips that are not there write them, as text.

No test lives here. Everything is compiled by one process, which writes a line for each program.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 600.0

# A topology whose compiler is not installed, and a program that is refused, are left out: what is
# there must be known by its name, whatever else is true of it.
_COMPILE = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from busbw.hardware import topologies
os.environ["TPU_LOG_DIR"] = sys.argv[1]
from busbw.model.words import Capability
from tests.worker.backends import real
real.prepare("jax", None, Capability.COMPILE)
from busbw.collectives import COLLECTIVES
from busbw.worker.backends.base import CompileError
from busbw.worker.backends.jax.compiler import JaxCompiler
from tests import build

compiler = JaxCompiler()
asked = json.loads(sys.argv[2])
for name in asked["topologies"]:
    topology = topologies.topology_of(name)
    if compiler.describe(topology).missing:
        continue
    for collective in COLLECTIVES:
        for size in asked["payloads"]:
            case = build.case(
                ranks=topology.ranks,
                collective=collective,
                payload_bytes=size,
                reduce_op="sum" if "reduce" in collective else "none",
                placement="in_place" if collective == "all_reduce" else "out_of_place",
                protocol="device/chain2",
            )
            try:
                text = compiler.lowered(case, topology).compiled().text
            except CompileError as error:
                text = ""
            print("PROGRAM", json.dumps([name, collective, size, text]))
"""


@dataclass(frozen=True)
class Program:
    """What was compiled, and the text; "" where the compiler refused it."""

    topology: str
    collective: str
    payload_bytes: int
    text: str


def programs(
    topologies: Sequence[str], payloads: Sequence[int], folder: Path
) -> tuple[Program, ...]:
    """Every collective, of every payload, on every topology that can be compiled for here."""
    asked = json.dumps({"topologies": list(topologies), "payloads": list(payloads)})
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, str(folder), asked],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("PROGRAM ")]
    return tuple(Program(*json.loads(line.removeprefix("PROGRAM "))) for line in lines)
