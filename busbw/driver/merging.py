"""One answer made of the answers of all processes of a group, which measured the same together.

They agree on every call's time, so that a Run of each says the same; where two differ the group is
out of step, and none of it is a result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from busbw.model import DeviceSet, Failure, FailureKind, LaunchId, Probe, Role, Run

from .transport import Answer

# Of a Run, what processes must agree on.
_AGREED = ("iterations", "samples_s", "clock", "proof", "clocks_s", "dispatch_s", "injected")


def merged(answers: Mapping[Role, Answer], launch: LaunchId) -> Answer:
    """The group's answer, of launch `launch`; a Failure CRASHED where the processes disagree."""
    found = list(answers.values())
    failures = [one for one in found if isinstance(one, Failure)]
    if failures:
        return replace(failures[0], launch=launch)
    runs = [one for one in found if isinstance(one, Run)]
    if len(runs) == len(found):
        return _of_runs(runs, launch)
    probes = [one for one in found if isinstance(one, Probe)]
    if len(probes) == len(found):
        return _of_probes(probes, launch)
    return found[0] if all(one == found[0] for one in found) else _disagree("answers", launch)


def _of_runs(runs: Sequence[Run], launch: LaunchId) -> Run | Failure:
    first = runs[0]
    for name in _AGREED:
        if any(getattr(one, name) != getattr(first, name) for one in runs):
            return _disagree(name, launch)
    return replace(
        first,
        launch=launch,
        values_checked=sum(run.values_checked for run in runs),
        compile_s=max(run.compile_s for run in runs),
        peak_memory_bytes=_largest(run.peak_memory_bytes for run in runs),
        predicted_memory_bytes=_largest(run.predicted_memory_bytes for run in runs),
        compiled_memory_bytes=_largest(run.compiled_memory_bytes for run in runs),
    )


def _largest(counts: Iterable[int | None]) -> int | None:
    return max((one for one in counts if one is not None), default=None)


def _of_probes(probes: Sequence[Probe], launch: LaunchId) -> Probe | Failure:
    """What all of them reach; WRONG_WORLD where they have other versions or other devices."""
    first = probes[0]
    for index, one in enumerate(probes):
        differ = _other_versions(one, first) or _other_devices(one, first)
        if differ:
            text = f"process {index}{_on(one)} has {differ[0]}, process 0{_on(first)} {differ[1]}"
            return Failure(kind=FailureKind.WRONG_WORLD, message=text, launch=launch)
    hosts = tuple(host for one in probes for host in one.hosts)
    least = [one.least_memory_bytes for one in probes if one.least_memory_bytes is not None]
    return replace(first, least_memory_bytes=max(least, default=None), hosts=hosts)


def _other_versions(one: Probe, other: Probe) -> tuple[str, str] | None:
    names = sorted(
        name
        for name in {*one.versions, *other.versions}
        if one.versions.get(name) != other.versions.get(name)
    )
    found = [
        ", ".join(f"{name} {probe.versions.get(name, 'missing')}" for name in names)
        for probe in (one, other)
    ]
    return (found[0], found[1]) if names else None


def _other_devices(one: Probe, other: Probe) -> tuple[str, str] | None:
    for ours, theirs in itertools.zip_longest(one.devices, other.devices):
        if ours != theirs:
            return _device_text(ours), _device_text(theirs)
    return None


def _device_text(found: DeviceSet | None) -> str:
    if found is None:
        return "none"
    cores = f" of {found.cores} cores" if found.cores is not None else ""
    return f"{found.device_kind}{cores}, {found.ranks} ranks"


def _on(probe: Probe) -> str:
    return f" ({', '.join(probe.hosts)})" if probe.hosts else ""


def _disagree(what: str, launch: LaunchId) -> Failure:
    return Failure(
        kind=FailureKind.CRASHED, message=f"the processes disagree on {what}", launch=launch
    )
