"""What is recorded of the session's surroundings beside the measurements: commit and load."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from busbw.grid import Target
from busbw.model import Device, Environment, EnvironmentKey, Probe, Spec
from busbw.workloads import Collective


def environment(target: Target, probes: Sequence[Probe], key: EnvironmentKey | None) -> Environment:
    """The Environment of a session on `target`, as `probes` and this process see it."""
    reached = [probe for probe in probes if probe.framework in target.sets]
    first = reached[0]
    return Environment(
        key=key
        or target.key(Spec(framework=first.framework, workload=Collective(), payload_bytes=1)),
        device=target.device,
        why=target.why,
        versions={probe.framework: probe.versions for probe in reached},
        flags={name: value for probe in reached for name, value in probe.flags.items()},
        framework_paths={probe.framework: probe.framework_path for probe in reached},
        commit=_commit(),
        load=os.getloadavg()[0],
        clock_mhz=_clock_mhz(target.device),
    )


def surroundings(environment: Environment) -> dict[str, str]:
    """What is told of when the machine's speed changed: load, clock frequency, flags."""
    found = dict(environment.flags)
    if environment.load is not None:
        found["load"] = f"{environment.load:.2f}"
    if environment.clock_mhz is not None:
        found["clock MHz"] = f"{environment.clock_mhz:.0f}"
    return found


def _clock_mhz(device: Device, cpuinfo: Path = Path("/proc/cpuinfo")) -> float | None:
    """The processor's clock frequency, the mean over cores; None for other devices."""
    if device is not Device.CPU or not cpuinfo.exists():
        return None
    found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo.read_text(), flags=re.MULTILINE)
    return statistics.fmean(map(float, found)) if found else None


def _commit() -> str:
    """The commit of the working directory, empty where there is none."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            check=False,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
