"""What is recorded of the session's surroundings beside the measurements: commit and load."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from busbw.cases import Target
from busbw.model import Environment, EnvironmentKey, Probe, Spec


def environment(target: Target, probes: Sequence[Probe], key: EnvironmentKey | None) -> Environment:
    """The Environment of a session on `target`, as `probes` and this process see it."""
    reached = [probe for probe in probes if probe.framework in target.sets]
    first = reached[0]
    return Environment(
        key=key or target.key(Spec(framework=first.framework, payload_bytes=1)),
        device=target.device,
        why=target.why,
        versions={probe.framework: probe.versions for probe in reached},
        flags={name: value for probe in reached for name, value in probe.flags.items()},
        framework_paths={probe.framework: probe.framework_path for probe in reached},
        commit=_commit(),
        load=os.getloadavg()[0],
    )


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
