"""The tables and lines that describe a session: its header, its cases, and written baselines."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from busbw import extensions, metrics
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Measurement
from busbw.model.machine import CPU_QUOTA, Environment, EnvironmentKey, Probe
from busbw.model.stored import Baseline, setup_changes
from busbw.model.verdict import Verdict
from busbw.model.words import DeviceClass, payload_text, plural, seconds_text
from busbw.report.conclusion import verdict_tables
from busbw.report.table import Column, Table, TextLine, make_rows

_WRITTEN_BASELINE_COLUMNS = (
    Column("case", width=16, left_aligned=True),
    Column("before", left_aligned=True),
    Column("after", text="-> {}".format, left_aligned=True),
    Column("reason", left_aligned=True, gap=2),
)


def header_lines(
    environment: Environment,
    baselines_folder: Path | None,
    reason_by_unreached_framework: Mapping[str, str],
    *,
    verbose: bool = False,
) -> Sequence[str]:
    """Return the lines that name the device, the frameworks and the folder of the baselines.

    Args:
        environment: The device and the versions of the frameworks.
        baselines_folder: The folder of all baselines; None for no line about baselines.
        reason_by_unreached_framework: The reason why a framework does not reach the device, by the
            name of the framework.
        verbose: Whether to add the reason why each other class of device was not chosen.

    """
    lines = [f"busbw {name}: {text}" for name, text in environment_facts(environment).items()]
    lines += [f"busbw device: {text}" for text in environment.not_found] if verbose else []
    lines += [
        f"busbw {framework}: does not reach the device: {reason}"
        for framework, reason in reason_by_unreached_framework.items()
    ]
    if baselines_folder is None:
        return lines
    folder, current = baselines_folder / environment.key.folder, Path.cwd()
    is_missing = "" if folder.is_dir() else " (none yet)"
    folder = folder.relative_to(current) if folder.is_relative_to(current) else folder
    lines.append(f"busbw baselines: {folder}{is_missing}")
    return lines


def environment_facts(environment: Environment) -> dict[str, str]:
    """Return a dictionary with a text on the devices, and a text on each framework.

    The key ``device`` has the text on the devices, which ends with the reason why this class of
    device was chosen. The name of each framework has the versions of the framework.
    """
    key, quota = environment.key, environment.flags.get(CPU_QUOTA)
    kind = f"{key.device_kind} ({environment.device.value.upper()}"
    kind += f", {plural(key.cores or 0, 'core')}" if environment.device is DeviceClass.CPU else ""
    kind += f", quota {quota}), " if quota else "), "
    # A framework splits a CPU into virtual devices, unless several processes each have a device.
    is_virtual = environment.device is DeviceClass.CPU and key.processes == 1
    kind += f"{key.ranks} virtual devices" if is_virtual else f"{key.ranks} ranks"
    versions = {name: versions_text(v) for name, v in environment.versions.items()}
    return {"device": f"{kind}{_mesh_text(key)}; {environment.reason}", **versions}


def _mesh_text(key: EnvironmentKey) -> str:
    """Return a text on the mesh, hosts, processes and sharing: `` in a 2x4 mesh``; may be empty."""
    shape = f" in a {key.mesh} mesh" if key.mesh else ""
    if (key.hosts, key.processes) != (1, 1):
        shape += f", {plural(key.hosts, 'host')}, {plural(key.processes, 'process')}"
    return f"{shape}, on a shared device" if key.shared else shape


def reference_stack_lines(
    probes: Sequence[Probe], flags: Mapping[str, str], home_folder: str
) -> Sequence[str]:
    """Return a line for each reference stack: its versions, its path, and the flags that differ.

    Args:
        probes: The probe of the reference stack of each framework.
        flags: The environment variables of the candidate. The line of a reference stack lists the
            flags whose values differ between the candidate and this reference stack.
        home_folder: The home directory of the user, which is written as ``~``.

    """
    lines = []
    for probe in probes:
        line = (
            f"busbw reference {probe.framework}: {versions_text(probe.versions)}, "
            f"from {variables.shorten_homes(probe.framework_path, home_folder)}"
        )
        changes = setup_changes(all_stack_flags(probe.flags), all_stack_flags(flags))
        lines.append(f"{line}; the candidate has {', '.join(changes)}" if changes else line)
    return lines


def all_stack_flags(flags: Mapping[str, str]) -> dict[str, str]:
    """Return `flags` reduced to the variables of stacks, with ``none`` for each unset variable."""
    return {name: flags.get(name, "none") for name in sorted(variables.STACK_VARIABLES)}


def versions_text(versions: Mapping[str, str]) -> str:
    """Return packages with their versions, such as ``jax 0.10.2, jaxlib 0.10.2``."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def session_tables(
    verdicts: Sequence[Verdict],
    measurements: Iterable[Measurement],
    *,
    verbose: bool = False,
    changed_options: str = "",
) -> list[Table]:
    """Return the tables of a session: its verdicts, and the tables of extensions.

    Args:
        verdicts: The verdicts in the order of the rows.
        measurements: The measurements of the cases, which extensions read.
        verbose: Whether to add columns and reasons, as `verdict_tables` does.
        changed_options: The options that changed the stack on purpose, as text for the titles;
            empty if no option changed it.

    """
    extra = (tables(measurements) for tables in extensions.load_declared_functions("tables"))
    return [
        *verdict_tables(verdicts, verbose=verbose, changed_options=changed_options),
        *itertools.chain(*extra),
    ]


# A changed baseline: the path of its file, its case, texts of the baseline before and after the
# change, and the reason for the change.
ChangeRow = tuple[Path, Case, str, str, str]


def written_baseline_tables(rows: Iterable[ChangeRow]) -> tuple[Table, ...]:
    """Return a table for each baseline file that was written, with a row for each changed baseline.

    `rows` are the changed baselines. Those of the same file must follow each other.
    """
    return tuple(
        Table(
            title=TextLine(f"baselines written: {path}"),
            columns=_WRITTEN_BASELINE_COLUMNS,
            rows=make_rows(
                {
                    "case": _name_within_baseline_file(case),
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


def _name_within_baseline_file(case: Case) -> str:
    """Return the text that tells the cases of a baseline file apart, such as ``float32 1M``.

    For a program, the text is the program's name, which is stored as the strategy.
    """
    if not case.is_single_collective:
        return case.strategy
    return f"{case.dtype} {payload_text(case.payload_bytes)}"


def baseline_text(case: Case, baseline: Baseline | None) -> str:
    """Return a text with the level of a baseline, its busbw, its launches, and its pinned time.

    Returns ``none`` if `baseline` is None, and ``out of memory`` for a baseline without times.
    """
    if baseline is None:
        return "none"
    level_s, pinned_s = baseline.level_s, baseline.pinned_s
    if level_s is None or pinned_s is None:
        return "out of memory"
    rate = f"{metrics.busbw_gb_per_s(case, level_s):.4g} GB/s busbw"
    launches = plural(len(baseline.times_s), "launch")
    counts = f"{launches} of {plural(len(baseline.sessions), 'session')}"
    return f"{seconds_text(level_s)} ({rate}, {counts}, pinned {seconds_text(pinned_s)})"
