"""The header of a measurement: device, ranks, versions, baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from busbw.model import Device, Environment, Probe, variables


def reference_lines(probes: Sequence[Probe], home: str = "") -> Sequence[str]:
    """The other stack's versions, and where each framework was loaded from; ``~`` for homes."""
    return [
        f"busbw reference {probe.framework}: {_versions_text(probe.versions)}, "
        f"from {variables.without_homes(probe.framework_path, home)}"
        for probe in probes
    ]


def _versions_text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def header_lines(
    environment: Environment,
    baselines: Path | None,
    folder: PurePath,
    unreached: Mapping[str, str],
) -> Sequence[str]:
    """A few lines, each beginning with what it is about. Without `baselines` none is named."""
    key = environment.key
    kind = f"{key.device_kind} ({environment.device.value.upper()}"
    kind += f", {key.cores} cores, virtual devices)" if environment.device is Device.CPU else ")"
    shape = f"{key.ranks} ranks" + (f" in a {key.mesh} mesh" if key.mesh else "")
    if (key.hosts, key.processes) != (1, 1):
        shape += f", {key.hosts} hosts, {key.processes} processes"
    lines = [f"busbw device: {kind}, {shape}; {environment.why}"]
    for framework, versions in environment.versions.items():
        lines.append(f"busbw {framework}: {_versions_text(versions)}")
    for framework, reason in unreached.items():
        lines.append(f"busbw {framework}: does not reach the device: {reason}")
    if baselines is None:
        return lines
    there = "" if (baselines / folder).is_dir() else " (none yet)"
    lines.append(f"busbw baselines: {baselines / folder}{there}")
    return lines
