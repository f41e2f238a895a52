"""What the parts share: the device, where results go, how long there is, and whole sessions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.model.words import Device

ROOT = Path(__file__).parents[2]

RANKS = 2
# On the CPU there are as many processes.
_DEVICE_OPTIONS = {
    Device.GPU: ("--device=gpu",),
    Device.CPU: ("--device=cpu", f"--processes={RANKS}"),
}
# What a session of the user's own would take from these.
_NOT_OURS = ("CI", "BUSBW_HISTORY", "PYTEST_ADDOPTS")


class PartError(Exception):
    """Why a part failed; `result` is what there is of it."""

    def __init__(self, why: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(why)
        self.result = result or {}


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
        """The folder of what parts write beside their result."""
        return self.out / "parts"

    def left_s(self, most_s: float) -> float:
        """Return the seconds left, `most_s` at most. Raises PartError if no time is left."""
        left_s = most_s if self.end_s is None else min(most_s, self.end_s - time.monotonic())
        if left_s <= 0:
            raise PartError("the time is over; name it in --parts to run it alone")
        return left_s


def session(
    bench: Bench,
    name: str,
    *options: str,
    exit_codes: tuple[int, ...] = (0,),
    stored: Path | None = None,
    most_s: float = 600.0,
) -> dict[str, Any]:
    """Run `pytest perf/` with JAX and one launch, and return its results, with its `wall_s`.

    Its output is in ``NAME.txt``, its baselines in `stored` or in those of the whole benchmark.
    Raises PartError for another exit code than `exit_codes`.
    """
    results, output = bench.parts / f"{name}.json", bench.parts / f"{name}.txt"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "perf/", "-q", "-p", "no:cacheprovider"]
    command += ["--frameworks=jax", "--launches=1", *_DEVICE_OPTIONS[bench.device]]
    folder = stored or bench.out / "baselines"
    folder.mkdir(exist_ok=True)
    command += [f"--results={results}", f"--baselines={folder}", *options]
    environment = {name: text for name, text in os.environ.items() if name not in _NOT_OURS}
    begun_s = time.monotonic()
    with output.open("w") as file:
        code = ended(command, bench.left_s(most_s), stdout=file, env=environment, cwd=ROOT)
    text = output.read_text()
    if code not in exit_codes or not results.exists():
        how = "did not end in time" if code is None else f"ended with exit code {code}"
        raise PartError(f"the session {how}: {_sentence(text)}")
    found: dict[str, Any] = json.loads(results.read_text())
    return {**found, "wall_s": time.monotonic() - begun_s}


def ended(command: list[str], timeout_s: float, **options: Any) -> int | None:
    """Return the exit code of a command; None if it was killed, with its group, at the timeout."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **options,
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.returncode is None:
            # Pytest ends its workers itself; who does not react is killed.
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _sentence(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "FAILED", "E "))]
    return next(iter([*errors, *lines[-1:]]), "it wrote nothing")[:400]
