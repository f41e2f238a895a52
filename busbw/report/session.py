"""The tables and lines of a session: its header, its curves, and the baselines that it wrote."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from busbw import extensions, metrics
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Measurement
from busbw.model.machine import CPU_QUOTA, Environment, EnvironmentKey, Probe
from busbw.model.stored import Baseline, setup_changes
from busbw.model.verdict import FamilyFit, Summary, Verdict
from busbw.model.words import Device, payload_text, plural, rate_text, seconds_text
from busbw.report.table import Column, Table, TextLine, attributes, percent_text, rows_of
from busbw.report.verdicts import verdict_tables

_MEASURED = (
    Column("case", width=48, left_aligned=True),
    Column("median_s", text=seconds_text, width=10),
    Column("algbw_gb_per_s", text="algbw {:.4g} GB/s,".format, gap=2),
    Column("busbw_gb_per_s", text="busbw {:.4g} GB/s".format),
    Column("launches", text="({} launches)".format, gap=2),
)
_CHANGES = (
    Column("case", width=16, left_aligned=True),
    Column("before", left_aligned=True),
    Column("after", text="-> {}".format, left_aligned=True),
    Column("reason", left_aligned=True, gap=2),
)


def header_lines(
    environment: Environment,
    baselines: Path | None,
    unreached: Mapping[str, str],
    *,
    verbose: bool = False,
) -> Sequence[str]:
    """Return lines on the device, the frameworks and the baselines.

    Args:
        environment: The device and the versions.
        baselines: The folder of the baselines; without it no folder is named.
        unreached: Why frameworks do not reach the device, by framework.
        verbose: Add why each kind of device was not found.

    """
    lines = [f"busbw {name}: {text}" for name, text in environment_facts(environment).items()]
    lines += [f"busbw device: {text}" for text in environment.not_found] if verbose else []
    for framework, reason in unreached.items():
        lines.append(f"busbw {framework}: does not reach the device: {reason}")
    if baselines is None:
        return lines
    folder, current = baselines / environment.key.folder, Path.cwd()
    is_missing = "" if folder.is_dir() else " (none yet)"
    folder = folder.relative_to(current) if folder.is_relative_to(current) else folder
    lines.append(f"busbw baselines: {folder}{is_missing}")
    return lines


def environment_facts(environment: Environment) -> dict[str, str]:
    """Return the device, with the reason for it, and the versions of each framework."""
    key, quota = environment.key, environment.flags.get(CPU_QUOTA)
    kind = f"{key.device_kind} ({environment.device.value.upper()}"
    kind += f", {key.cores} cores" if environment.device is Device.CPU else ""
    kind += f", quota {quota}), " if quota else "), "
    # The framework made the devices of a CPU, unless each process has one device.
    is_virtual = environment.device is Device.CPU and key.processes == 1
    kind += f"{key.ranks} virtual devices" if is_virtual else f"{key.ranks} ranks"
    versions = {name: versions_text(v) for name, v in environment.versions.items()}
    return {"device": f"{kind}{_shape_text(key)}; {environment.reason}", **versions}


def _shape_text(key: EnvironmentKey) -> str:
    """Return the text after the number of ranks: mesh, hosts, processes, and device sharing."""
    shape = f" in a {key.mesh} mesh" if key.mesh else ""
    if (key.hosts, key.processes) != (1, 1):
        shape += f", {plural(key.hosts, 'host')}, {plural(key.processes, 'process')}"
    return f"{shape}, on a shared device" if key.shared else shape


def reference_lines(probes: Sequence[Probe], flags: Mapping[str, str], home: str) -> Sequence[str]:
    """Return where each reference was loaded from, and how `flags` differ from its flags.

    ``~`` stands for the `home` directory.
    """
    return [
        f"busbw reference {probe.framework}: {versions_text(probe.versions)}, "
        f"from {variables.shorten_homes(probe.framework_path, home)}"
        + "".join(
            f", {text}" for text in setup_changes(stack_flags(probe.flags), stack_flags(flags))
        )
        for probe in probes
    ]


def changed_lines(stacks: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Yield a line for each framework, the date of its baseline and what differs from that."""
    for framework, date, differences in stacks:
        yield f"busbw {framework}: other than the baseline of {date}: {', '.join(differences)}"


def stack_flags(flags: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a stack, with ``none`` for those that are not set."""
    return {name: flags.get(name, "none") for name in sorted(variables.STACK_VARIABLES)}


def versions_text(versions: Mapping[str, str]) -> str:
    """Return packages with their versions, such as ``jax 0.10.2, jaxlib 0.10.2``."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def session_tables(
    verdicts: Sequence[Verdict],
    measurements: Iterable[Measurement],
    groups: Sequence[FamilyFit] = (),
    *,
    verbose: bool = False,
    changed: str = "",
) -> list[Table]:
    """Return the tables of verdicts, of fitted curves, and of extensions."""
    extra = (tables(measurements) for tables in extensions.load_functions("tables"))
    return [
        *verdict_tables(verdicts, verbose=verbose, changed=changed),
        *curve_tables(groups),
        *itertools.chain(*extra),
    ]


def measured_table(summaries: Sequence[tuple[Case, Summary]], launches: int) -> Table:
    """Return what an interrupted session had measured of `launches` planned launches.

    Nothing of it is judged.
    """
    return Table(
        columns=_MEASURED,
        rows=rows_of(
            {
                "case": case.name,
                "launches": f"{len(summary.times_s)} of {launches}",
                **attributes(summary, "median_s", "algbw_gb_per_s", "busbw_gb_per_s"),
            }
            for case, summary in summaries
        ),
        notes=() if summaries else ("nothing was measured before the interrupt",),
    )


# The path of a file, the case of a baseline, the baseline before and after, and the reason.
ChangeRow = tuple[Path, Case, str, str, str]


def change_tables(rows: Iterable[ChangeRow]) -> tuple[Table, ...]:
    """Return a table for each file of baselines that was written."""
    return tuple(
        Table(
            title=TextLine(f"baselines written: {path}"),
            columns=_CHANGES,
            rows=rows_of(
                {
                    "case": _line_text(case),
                    "before": before,
                    "after": after,
                    "reason": reason or None,
                }
                for _, case, before, after, reason in group
            ),
            indent=4,
        )
        for path, group in itertools.groupby(rows, key=operator.itemgetter(0))
    )


def _line_text(case: Case) -> str:
    """Return dtype and payload, which name a line of a file; the name of a program."""
    if not case.is_sized:
        return case.strategy
    return f"{case.dtype} {payload_text(case.payload_bytes)}"


def baseline_text(case: Case, baseline: Baseline | None) -> str:
    """Return the level of a baseline, with what it was measured in."""
    if baseline is None:
        return "none"
    level_s, pinned_s = baseline.level_s, baseline.pinned_s
    if level_s is None or pinned_s is None:
        return "out of memory"
    rate = f"{metrics.busbw_gb_per_s(case, level_s):.4g} GB/s busbw"
    launches = plural(len(baseline.times_s), "launch")
    counts = f"{launches} of {plural(len(baseline.sessions), 'session')}"
    return f"{seconds_text(level_s)} ({rate}, {counts}, pinned {seconds_text(pinned_s)})"


def curve_tables(groups: Sequence[FamilyFit]) -> list[Table]:
    """Return a table of the fitted curves; without any, nothing."""
    rows = [
        {
            "group": group.case.family_name,
            **attributes(group.now, "latency_s", "bandwidth_bytes_per_s", "rms_log_error"),
        }
        for group in groups
        if group.now is not None
    ]
    title = TextLine("latency + payload / bandwidth, fitted to all payloads:")
    return [Table(title=title, columns=_CURVE, rows=rows_of(rows), indent=4)] if rows else []


def _latency_text(latency_s: float) -> str:
    """Return the latency; times in proportion to the payload show none."""
    return seconds_text(latency_s, digits=3) if latency_s >= 5e-9 else "too small to see"


_CURVE = (
    Column("group", fits=True, left_aligned=True),
    Column("latency_s", "latency", text=_latency_text, width=8, fits=True, gap=2),
    Column("bandwidth_bytes_per_s", "bandwidth", text=rate_text, width=10, fits=True, gap=2),
    Column("rms_log_error", "error", unit="%", text=percent_text, width=5, gap=2),
)
