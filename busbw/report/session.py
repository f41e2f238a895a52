"""The report of a session, of figures from elsewhere; fits nothing and judges nothing."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from busbw import metrics
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.counters import CPU_QUOTA
from busbw.model.launch import Measurement
from busbw.model.machine import Compiler, Environment, EnvironmentKey, Probe
from busbw.model.stored import CompiledBaseline, Stored
from busbw.model.verdict import Curve, SizeGroup, Summary, Verdict
from busbw.model.words import Device, payload_text, plural, rate_text, seconds_text
from busbw.report.table import Column, Table, TextLine, attributes, rows_of
from busbw.report.verdicts import verdict_tables

_MEASURED = (
    Column("case", width=48, left=True),
    Column("median_s", text=seconds_text, width=10),
    Column("algbw_gb_per_s", text="algbw {:.4g} GB/s,".format, gap=2),
    Column("busbw_gb_per_s", text="busbw {:.4g} GB/s".format),
    Column("launches", text="({} launches)".format, gap=2),
)
_CHANGES = (
    Column("case", width=16, left=True),
    Column("before", left=True),
    Column("after", text="-> {}".format, left=True),
    Column("why", left=True, gap=2),
)
_CURVE_TITLE = "latency + payload / bandwidth, fitted to all payloads:"
_CURVE_COLUMNS = (Column("group", fits=True, left=True), Column("curve", left=True, gap=2))
_ORDER_TITLE = "order of additions, by payload:"
_ORDER_COLUMNS = (Column("group", fits=True, left=True), Column("orders", left=True, gap=2))


def header_lines(
    environment: Environment,
    baselines: Path | None,
    unreached: Mapping[str, str],
    *,
    verbose: bool = False,
) -> Sequence[str]:
    """Without `baselines` no folder is named; `verbose` says why each device is not there."""
    key = environment.key
    quota = environment.flags.get(CPU_QUOTA)
    kind = f"{key.device_kind} ({environment.device.value.upper()}"
    kind += f", {key.cores} cores" if environment.device is Device.CPU else ""
    kind += f", quota {quota}), " if quota else "), "
    # Of a CPU the framework made the devices, unless each process has one.
    is_virtual = environment.device is Device.CPU and key.processes == 1
    kind += f"{key.ranks} virtual devices" if is_virtual else f"{key.ranks} ranks"
    lines = [f"busbw device: {kind}{shape_text(key)}; {environment.why}"]
    lines += [f"busbw device: {why}" for why in environment.not_found] if verbose else []
    for framework, versions in environment.versions.items():
        lines.append(f"busbw {framework}: {versions_text(versions)}")
    for framework, reason in unreached.items():
        lines.append(f"busbw {framework}: does not reach the device: {reason}")
    if baselines is None:
        return lines
    folder = baselines / key.folder
    there = "" if folder.is_dir() else " (none yet)"
    lines.append(f"busbw baselines: {_shown(folder)}{there}")
    return lines


def shape_text(key: EnvironmentKey) -> str:
    """Return the text after the number of ranks: mesh, hosts, processes, and device sharing."""
    shape = f" in a {key.mesh} mesh" if key.mesh else ""
    if (key.hosts, key.processes) != (1, 1):
        shape += f", {plural(key.hosts, 'host')}, {plural(key.processes, 'process')}"
    return f"{shape}, on a shared device" if key.shared else shape


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def reference_lines(probes: Sequence[Probe], flags: Mapping[str, str], home: str) -> Sequence[str]:
    """Where each framework was loaded from, and other flags than ours; ``~`` stands for homes."""
    return [
        f"busbw reference {probe.framework}: {versions_text(probe.versions)}, "
        f"from {variables.without_homes(probe.framework_path, home)}"
        + "".join(f", {text}" for text in _other_flags(probe.flags, flags))
        for probe in probes
    ]


def changed_lines(changes: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Yield a line for each framework, the date of its baseline and what differs from that."""
    for framework, date, found in changes:
        yield f"busbw {framework}: other than the baseline of {date}: {', '.join(found)}"


def _other_flags(theirs: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(variables.STACK & (theirs.keys() | ours.keys())):
        if theirs.get(name) != ours.get(name):
            yield f"{name}={theirs[name]}" if name in theirs else f"without {name}"


def versions_text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def compiler_lines(compilers: Sequence[Compiler]) -> list[str]:
    topologies: dict[str, dict[str, None]] = {}
    for one in compilers:
        if not one.missing:
            topologies.setdefault(one.release, {})[one.topology] = None
    found = [f"{release} for {', '.join(names)}" for release, names in sorted(topologies.items())]
    found += [f"none for {one.topology}: {one.missing}" for one in compilers if one.missing]
    return [f"busbw compiler: {text}" for text in found]


def session_tables(
    verdicts: Sequence[Verdict],
    measurements: Iterable[Measurement],
    groups: Sequence[SizeGroup] = (),
    *,
    verbose: bool = False,
    changed: str = "",
) -> list[Table]:
    """Return the tables of verdicts, of fitted curves, and of the order of additions."""
    return [
        *verdict_tables(verdicts, verbose=verbose, changed=changed),
        *curve_tables(groups),
        *_order_tables(measurements),
    ]


def measured_table(found: Sequence[tuple[Case, Summary]], launches: int) -> Table:
    """What an interrupted session had measured; nothing of it is judged."""
    return Table(
        columns=_MEASURED,
        rows=rows_of(
            {
                "case": case.name,
                "launches": f"{len(now.times_s)} of {launches}",
                **attributes(now, "median_s", "algbw_gb_per_s", "busbw_gb_per_s"),
            }
            for case, now in found
        ),
        notes=() if found else ("nothing was measured before the interrupt",),
    )


def change_tables(
    changes: Sequence[tuple[str, Case, Stored | None, Stored | None, str]],
) -> list[Table]:
    """A table for each file, with why each was written; None: there was none, or it was removed."""
    return [
        Table(
            title=TextLine(f"baselines written: {path}"),
            columns=_CHANGES,
            rows=rows_of(
                {
                    "case": _line_text(case),
                    "before": _baseline_text(case, before),
                    "after": _baseline_text(case, after),
                    "why": why or None,
                }
                for _, case, before, after, why in group
            ),
            indent=4,
        )
        for path, group in itertools.groupby(changes, key=lambda change: change[0])
    ]


def _line_text(case: Case) -> str:
    """What its line in its file is of: a program's file has but one."""
    one = f"{case.dtype} {payload_text(case.payload_bytes)}"
    return one if case.workload.is_sized else case.strategy


def _baseline_text(case: Case, baseline: Stored | None) -> str:
    if baseline is None:
        return "none"
    if isinstance(baseline, CompiledBaseline):
        return baseline.compiled.algorithm_text if baseline.compiled else "out of memory"
    level_s, pinned_s = baseline.level_s, baseline.pinned_s
    if level_s is None or pinned_s is None:
        return "out of memory"
    rate = f"{metrics.busbw_gb_per_s(case, level_s):.4g} GB/s busbw"
    launches = plural(len(baseline.times_s), "launch")
    counts = f"{launches} of {plural(len(baseline.sessions), 'session')}"
    return f"{seconds_text(level_s)} ({rate}, {counts}, pinned {seconds_text(pinned_s)})"


def curve_tables(groups: Sequence[SizeGroup]) -> list[Table]:
    """The curve of each group now, where there is one, and the baseline's if any."""
    rows = rows_of(
        {"group": one.case.group_name, "curve": _figures(one.now, one.before)}
        for one in groups
        if one.now is not None
    )
    table = Table(title=TextLine(_CURVE_TITLE), columns=_CURVE_COLUMNS, rows=rows, indent=4)
    return [table] if rows else []


def _order_tables(measurements: Iterable[Measurement]) -> list[Table]:
    """Return a table of the payloads from which on a sum is added up in another order, if any.

    The orders come from the signatures. A case whose launches differ, or that has no signature,
    counts for no change.
    """
    by_group: dict[str, list[tuple[int, str]]] = {}
    for measurement in measurements:
        orders = {run.signature.partition(" ")[2] for run in measurement.runs}
        if len(orders) == 1 and "" not in orders:
            case = measurement.case
            by_group.setdefault(case.group_name, []).append((case.payload_bytes, orders.pop()))
    rows = []
    for group, payloads in by_group.items():
        alike = itertools.groupby(sorted(payloads), key=operator.itemgetter(1))
        starts = [f"{order} from {payload_text(next(cases)[0])}" for order, cases in alike]
        rows += [{"group": group, "orders": ", ".join(starts)}] if len(starts) > 1 else []
    table = Table(
        title=TextLine(_ORDER_TITLE), columns=_ORDER_COLUMNS, rows=rows_of(rows), indent=4
    )
    return [table] if rows else []


def _figures(now: Curve, before: Curve | None) -> str:
    latency, bandwidth = _latency_text(now), rate_text(now.bandwidth_bytes_per_s)
    if before is not None:
        was = _latency_text(before)
        latency = latency if was == latency else f"{was} -> {latency}"
        bandwidth = f"{rate_text(before.bandwidth_bytes_per_s)} -> {bandwidth}"
    error = f"fit error {100 * now.rms_log_error:.0f} %"
    return f"latency {latency}, bandwidth {bandwidth} ({error})"


def _latency_text(curve: Curve) -> str:
    """A curve through times in proportion to the payload has none that can be seen."""
    return (
        seconds_text(curve.latency_s, digits=3) if curve.latency_s >= 5e-9 else "too small to see"
    )
