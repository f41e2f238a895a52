"""The report of a session, of figures from elsewhere; fits nothing and judges nothing."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import metrics
from busbw.model import variables
from busbw.model.case import Case, CaseKey, Spec
from busbw.model.counters import CPU_QUOTA
from busbw.model.launch import Measurement, Run
from busbw.model.machine import Compiler, Environment, EnvironmentKey, Probe
from busbw.model.stored import CompiledBaseline, Stored
from busbw.model.training import TrainingRun, TrainingStrategy
from busbw.model.verdict import Curve, SizeGroup, Summary, Verdict
from busbw.model.words import Device, payload_text, plural, rate_text, seconds_text
from busbw.report.table import Column, Table, TextLine, attributes, explained, percent_text, rows_of
from busbw.report.verdicts import verdict_tables
from busbw.workloads.collective import Collective
from busbw.workloads.dense_step import DenseStep

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
    measured: Mapping[Spec, Measurement],
    groups: Sequence[SizeGroup] = (),
    *,
    verbose: bool = False,
    changed: str = "",
) -> list[Table]:
    return [
        *verdict_tables(verdicts, verbose=verbose, changed=changed),
        *step_tables(verdicts, measured),
        *strategy_tables(verdicts, measured),
        *curve_tables(groups),
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
    busbw = metrics.busbw_gb_per_s(case, level_s) if case.workload.is_bare else None
    rate = "" if busbw is None else f"{busbw:.4g} GB/s busbw, "
    launches = plural(len(baseline.times_s), "launch")
    counts = f"{launches} of {plural(len(baseline.sessions), 'session')}"
    return f"{seconds_text(level_s)} ({rate}{counts}, pinned {seconds_text(pinned_s)})"


def curve_tables(groups: Sequence[SizeGroup]) -> list[Table]:
    """The curve of each group now, where there is one, and the baseline's if any."""
    rows = rows_of(
        {"group": one.case.group_name, "curve": _figures(one.now, one.before)}
        for one in groups
        if one.now is not None
    )
    table = Table(title=TextLine(_CURVE_TITLE), columns=_CURVE_COLUMNS, rows=rows, indent=4)
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


_STEP_COLUMNS = (
    Column("payload_bytes", "gradient", text=payload_text, width=8),
    Column("step_s", "step", text=seconds_text, width=10),
    Column("alone_s", "alone", text=seconds_text, width=10),
    Column("alone_share", "of step", unit="%", text=percent_text, width=10),
    Column("last_s", "last", text=seconds_text, width=10),
    Column("first_s", "first", text=seconds_text, width=10),
    Column("overlap_fraction", "hidden", unit="%", text=percent_text, width=10),
)
_STEP_NOTES = (
    "alone: the all-reduce by itself. last, first: inside of the step, by the profiler, on the",
    "rank that came to it last, and on the one that came first and waits for the others.",
    "hidden: how much of it the rank computed meanwhile; empty where the recording does not tell",
)
_STRATEGY_COLUMNS = (
    Column("strategy", "strategy", width=8, fits=True, left=True),
    Column("ranks", "ranks", width=5),
    Column("step_s", "step", text=seconds_text, width=10),
    Column("one_device_ratio", "one_device", unit="x", text="{:.2f}".format, width=10),
    Column("epoch_s", "epoch", text=seconds_text, width=10),
    Column("first_epoch_s", "first", text=seconds_text, width=10),
    Column("accuracy", "accuracy", unit="%", text=lambda share: f"{100 * share:.1f}", width=8),
    Column("agree", "agree", width=5),
)
_STRATEGY_NOTES = (
    "step: all ranks together over one batch. first: the epoch that holds tracing and connecting.",
    "agree: weights of all ranks, bit for bit, after the first step and at the end (-: one copy)",
)

# A case, its median in seconds, and what its launches gave.
_Timed = tuple[Case, float, Sequence[Run]]


def _timed(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[_Timed]:
    return [
        (one.case, one.now.median_s, measured[one.spec].runs if one.spec in measured else ())
        for one in verdicts
        if one.case is not None and one.now is not None
    ]


def step_tables(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[Table]:
    timed, tables = _timed(verdicts, measured), []
    alone_s = {case.key: median_s for case, median_s, _ in timed if case.workload.is_bare}
    steps = [one for one in timed if isinstance(one[0].workload, DenseStep)]
    for kind, alike in itertools.groupby(steps, key=lambda step: step[0].group_name):
        group = list(alike)
        rows = rows_of(_step_values(one, alone_s) for one in group)
        title = TextLine(f"{kind}, {group[0][0].ranks} ranks:")
        tables.append(Table(title=title, columns=_STEP_COLUMNS, rows=rows))
    return explained(tables, _STEP_NOTES)


def _step_values(step: _Timed, all_alone_s: Mapping[CaseKey, float]) -> dict[str, object]:
    case, step_s, runs = step
    alone_s = all_alone_s.get(replace(case.key, workload=Collective.around(case.workload)))
    last_s, first_s = medians_inside(runs)
    # Not every launch knows the hidden share.
    hidden = [run.overlap_fraction for run in runs if run.overlap_fraction is not None]
    return {
        "payload_bytes": case.payload_bytes,
        "step_s": step_s,
        "alone_s": alone_s,
        "alone_share": None if alone_s is None else alone_s / step_s,
        "last_s": last_s,
        "first_s": first_s,
        "overlap_fraction": statistics.median(hidden) if hidden else None,
    }


def medians_inside(runs: Sequence[Run]) -> tuple[float | None, float | None]:
    """Seconds of a step's all-reduce on the rank that reaches it last, and on the first one.

    The last one waits for no other: its all-reduce is the shortest. None if no launch knows.
    """
    known = [run.over_ranks_s for run in runs if run.over_ranks_s]
    last_s, first_s = (
        statistics.median(one[which] for one in known) if known else None
        for which in ("fastest", "slowest")
    )
    return last_s, first_s


def training_medians(runs: Sequence[TrainingRun]) -> dict[str, object]:
    if not runs:
        return {}
    later_s = [epoch_s for run in runs for epoch_s in run.epochs_s[1:]]
    return {
        "epoch_s": statistics.median(later_s),
        "first_epoch_s": statistics.median(run.epochs_s[0] for run in runs),
        "accuracy": statistics.median(run.accuracy for run in runs),
    }


def strategy_tables(
    verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]
) -> list[Table]:
    found: dict[str, list[tuple[Case, float, list[TrainingRun]]]] = {}
    for case, step_s, launches in _timed(verdicts, measured):
        runs = [run.training for run in launches if run.training is not None]
        if case.workload.own_strategies and runs:
            found.setdefault(case.framework, []).append((case, step_s, runs))
    return explained([_strategy_table(alike) for alike in found.values()], _STRATEGY_NOTES)


def _strategy_table(alike: Sequence[tuple[Case, float, list[TrainingRun]]]) -> Table:
    step_of = {case.strategy: step_s for case, step_s, _ in alike}
    alone_s = step_of.get(TrainingStrategy.ONE_DEVICE.value)
    first, _, (run, *_) = alike[0]
    title = (
        f"{first.framework}, a small net trained under strategies, {run.steps} steps an epoch, "
        f"{len(run.epochs_s)} epochs:"
    )
    rows = rows_of(
        {
            "strategy": case.strategy,
            "ranks": case.ranks,
            "step_s": step_s,
            "one_device_ratio": None if alone_s is None else step_s / alone_s,
            **training_medians(runs),
            "agree": "yes" if all(len(run.last_digests) > 1 for run in runs) else "-",
        }
        for case, step_s, runs in alike
    )
    return Table(title=TextLine(title), columns=_STRATEGY_COLUMNS, rows=rows)
