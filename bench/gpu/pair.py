"""Two processes that run something of the benchmark's own together, as busbw's workers do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.driver.network import free_ports
from busbw.frameworks import FRAMEWORKS
from busbw.model import variables
from busbw.model.cluster import Cluster, members_of
from busbw.model.words import Capability

from .bench import RANKS, ROOT, Bench, PartError

_LOOK_S = 0.1
_MEMBER = "bench.gpu.member"


def answers(
    bench: Bench, doing: str, *, most_s: float, environment: Mapping[str, str] | None = None
) -> list[Any]:
    """Return what each process of a pair answers. Raises PartError if one has no answer in time."""
    cluster = Cluster(processes=RANKS, shared_devices=1 if bench.is_gpu else 0)
    ports = free_ports(RANKS, "127.0.0.1", socket.AF_INET)
    members = members_of(cluster, (f"127.0.0.1:{port}" for port in ports))
    usual = FRAMEWORKS["jax"].environment[Capability.MEASURE]
    given = variables.with_huge_pages({**usual, **os.environ, **(environment or {})})
    paths = [bench.parts / f"{doing}-{member.index}.json" for member in members]
    with contextlib.ExitStack() as held:
        processes = []
        for member, path in zip(members, paths, strict=True):
            path.unlink(missing_ok=True)
            words = (bench.device.value, doing, str(path), json.dumps(wire.to_json(member)))
            log = held.enter_context(path.with_suffix(".txt").open("w"))
            command = [sys.executable, "-m", _MEMBER, str(os.getpid()), *words]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=given, cwd=ROOT
            )
            held.callback(_end, process)
            processes.append(process)
        _wait(processes, bench.left_s(most_s), paths)
    return [json.loads(path.read_text()) for path in paths]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _wait(
    processes: Sequence[subprocess.Popen[bytes]], timeout_s: float, paths: Sequence[Path]
) -> None:
    end_s = time.monotonic() + timeout_s
    while any(process.poll() is None for process in processes):
        failed = [
            path for path, process in zip(paths, processes, strict=True) if process.returncode
        ]
        if failed or time.monotonic() > end_s:
            break
        time.sleep(_LOOK_S)
    for process, path in zip(processes, paths, strict=True):
        if process.returncode:
            raise PartError(f"{path.stem} ended with {process.returncode}: {_last(path)}")
    for process, path in zip(processes, paths, strict=True):
        if process.returncode is None or not path.exists():
            raise PartError(f"{path.stem} gave no answer in {timeout_s:.0f} s: {_last(path)}")


def _last(path: Path) -> str:
    lines = path.with_suffix(".txt").read_text(errors="replace").strip().splitlines()
    return next(iter(reversed(lines)), "it wrote nothing")[:400]
