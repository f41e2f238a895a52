"""Options to Specs, and Specs to Cases on the machine that a probe found.

Pure: values in, values out. Asks no hardware and starts no process; what a probe found is
handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Case, Device, DeviceSet, EnvironmentKey, Probe, Spec

DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2, "int32": 4}

STRATEGIES: Mapping[str, tuple[str, ...]] = {
    "jax": ("default", "psum"),
    "tensorflow": (
        "default",
        "ring",
        "reduction_to_one_device",
        "hierarchical_copy",
        "nccl",
        "tpu",
    ),
    "fake": ("default", "fake"),
}

FRAMEWORKS = tuple(STRATEGIES)

_REASON_CHARACTERS = 120

AUTO_ORDER = (Device.TPU, Device.GPU, Device.CPU)


class GridError(ValueError):
    """A selection that cannot be measured: an empty grid, a device that is not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The devices a session measures on, one set per framework that reaches them, and why."""

    device: Device
    why: str
    sets: Mapping[str, DeviceSet]
    unreached: Mapping[str, str]

    def key(self, framework: str, ranks: int | None) -> EnvironmentKey:
        """The Environment key of `framework`'s cases on so many ranks (None: all there are)."""
        found = self.sets[framework]
        return EnvironmentKey(
            device_kind=found.device_kind,
            ranks=ranks or found.ranks,
            cores=found.cores,
            mesh=found.mesh if ranks in (None, found.ranks) else "",
            hosts=found.hosts,
            processes=found.processes,
        )


def specs(
    *,
    frameworks: Sequence[str],
    strategies: Sequence[str],
    dtypes: Sequence[str],
    payloads: Sequence[int],
    ranks: int | None,
) -> tuple[Spec, ...]:
    """Every Spec of the grid, in a stable order: framework, strategy, dtype, payload.

    A framework takes those of `strategies` that it knows. Raises GridError if one is left with
    none, if a payload is not a whole number of elements, or if nothing is left at all.
    """
    grid = []
    for framework in frameworks:
        known = [name for name in strategies if name in STRATEGIES[framework]]
        if not known:
            raise GridError(
                f"{framework} has none of the strategies {', '.join(strategies)}; "
                f"it has {', '.join(STRATEGIES[framework])}"
            )
        grid += [
            Spec(
                framework=framework, strategy=strategy, dtype=dtype, payload_bytes=size, ranks=ranks
            )
            for strategy in known
            for dtype in dtypes
            for size in payloads
        ]
    _check_grid(grid)
    return tuple(grid)


def _check_grid(grid: Sequence[Spec]) -> None:
    if not grid:
        raise GridError("nothing to measure: no framework, dtype or payload is selected")
    for spec in grid:
        if spec.payload_bytes % DTYPES[spec.dtype]:
            raise GridError(
                f"a payload of {spec.payload_bytes} bytes is not a whole number of {spec.dtype} "
                f"elements of {DTYPES[spec.dtype]} bytes"
            )


def choose_target(
    *, device: Device | None, ranks: int | None, probes: Sequence[Probe], named: Sequence[str]
) -> Target:
    """The devices to measure on: `device`, or with None the first class with two ranks or more.

    `named` frameworks were asked for by name and must reach the device; others that do not are
    listed in `Target.unreached`. Raises GridError with what was found.
    """
    tried: list[str] = []
    for candidate in (device,) if device else AUTO_ORDER:
        target, reason = _try_device(candidate, ranks, probes)
        if target is not None:
            _check_named(target, named)
            return _with_why(target, tried, asked=device is not None)
        tried.append(reason)
    raise GridError("; ".join(tried))


def _try_device(
    device: Device, ranks: int | None, probes: Sequence[Probe]
) -> tuple[Target | None, str]:
    sets: dict[str, DeviceSet] = {}
    reasons: dict[str, str] = {}
    for probe in probes:
        found = next((d for d in probe.devices if d.device is device), None)
        if found is None:
            reasons[probe.framework] = _shortened(probe.missing.get(device.value, "not found"))
        elif found.ranks < 2:
            reasons[probe.framework] = f"{found.ranks} rank ({found.device_kind}), two are needed"
        elif ranks is not None and ranks > found.ranks and not found.any_ranks:
            reasons[probe.framework] = (
                f"{found.ranks} ranks ({found.device_kind}), {ranks} asked for"
            )
        else:
            sets[probe.framework] = found
    if sets:
        return Target(device=device, why="", sets=sets, unreached=reasons), ""
    each = ", ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return None, f"no {device.value.upper()} to measure on ({each})"


def _shortened(reason: str) -> str:
    """A framework's own words, as many as fit into a sentence of ours."""
    return reason if len(reason) <= _REASON_CHARACTERS else reason[:_REASON_CHARACTERS] + "..."


def _check_named(target: Target, named: Sequence[str]) -> None:
    for framework in named:
        if framework in target.unreached:
            raise GridError(
                f"{framework} does not reach the {target.device.value.upper()}: "
                f"{target.unreached[framework]}"
            )


def _with_why(target: Target, tried: Sequence[str], *, asked: bool) -> Target:
    why = "asked for" if asked else "; ".join([*tried, "the first with two ranks or more"])
    return Target(device=target.device, why=why, sets=target.sets, unreached=target.unreached)


def resolve(spec: Spec, target: Target) -> Case:
    """The Case that `spec` is on `target`. Raises GridError with the reason if it is none there."""
    if spec.framework not in target.sets:
        raise GridError(
            f"{spec.framework} does not reach the {target.device.value.upper()}: "
            f"{target.unreached.get(spec.framework, 'not probed')}"
        )
    found = target.sets[spec.framework]
    strategy = found.strategies.get(spec.strategy)
    if strategy is None:
        raise GridError(
            f"{spec.framework} has no strategy {spec.strategy} on the "
            f"{target.device.value.upper()}; it has {', '.join(sorted(set(found.strategies)))}"
        )
    key = target.key(spec.framework, spec.ranks)
    return Case(
        framework=spec.framework,
        payload_bytes=spec.payload_bytes,
        collective=spec.collective,
        strategy=strategy,
        dtype=spec.dtype,
        reduce_op=spec.reduce_op,
        ranks=key.ranks,
        mesh=key.mesh,
        placement=spec.placement,
        protocol=found.protocol,
    )
