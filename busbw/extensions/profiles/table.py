"""Sessions of recordings to figures: a row for each payload, a column for each slice."""

from __future__ import annotations

import re
import statistics
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw import metrics
from busbw.collectives import COLLECTIVES
from busbw.model.limits import LEAST_S
from busbw.model.words import MIB, payload_text
from busbw.storage import TooLargeError

from .recordings import UNKNOWN, Collective, collectives, read

_PLANE = re.compile(r"/device:(?:TPU|GPU):(\d{1,9})")
# Names of folders of the project "TPU_All_reduce" of 2019, which measured TPU v2: scale16 is 16M,
# scale-16 is 1M / 16.
_TPU_V2 = re.compile(r"tpu(?:v2n)?(?P<slice>\d+)a?_bs\d+_(?P<sign>-?)scale(?P<scale>-?\d+)")

# A figure in the form that it has in JSON.
Cell = dict[str, Any]
# Seconds of one collective on each device.
Iteration = dict[str, float]


def cells(
    sessions: Mapping[Path, Mapping[str, Path]], options: Namespace, problems: list[str]
) -> list[Cell]:
    """Return the figures of all sessions; those of the same payload and column are joined.

    Args:
        sessions: the file of each host, by folder.
        options: those of `busbw trace`.
        problems: is extended by a sentence for everything that gives no figure.

    """
    joined: dict[tuple[str, int, str, int], list[Iteration]] = defaultdict(list)
    for folder, hosts in sessions.items():
        devices, by_sort = set[str](), defaultdict(list)
        for host, path in hosts.items():
            try:
                events = read(path, options.size_limit)
                recorded = collectives(events, host)
            except ValueError as error:
                hint = " (--size-limit)" if isinstance(error, TooLargeError) else ""
                problems.append(f"{path}: {error}{hint}")
                # The host counts as a device, which lacks its collectives.
                events, recorded = [], []
                devices.add(host)
            planes = map(_PLANE.fullmatch, {event.plane for event in events})
            devices |= {f"{host}/{match[1]}" for match in planes if match}
            for collective in recorded:
                if collective.kind in (*options.collective, UNKNOWN):
                    by_sort[collective[:3]].append(collective)
        if not by_sort:
            problems.append(f"{folder}: no {' or '.join(options.collective)} with its time in it")
        for of_sort in by_sort.values():
            try:
                iterations = _iterations(of_sort, devices, is_partial=options.partial)
                joined[_key(folder, of_sort[0], options, len(iterations[0]))] += iterations
            except ValueError as error:
                problems.append(f"{folder}: {of_sort[0].kind}: {error}")
    return [_cell(*key, iterations) for key, iterations in sorted(joined.items())]


def _iterations(
    of_sort: Sequence[Collective], devices: set[str], *, is_partial: bool
) -> list[Iteration]:
    """Return the collectives over all devices without warm-ups.

    The k-th call on one device is the k-th on all, and so is a call's i-th collective. The first of
    each call is its warm-up; where each call has a single one, the first call is. With `is_partial`
    devices that lack collectives are left out.

    Raises ValueError where the recording lacks collectives or devices, or has only warm-ups.
    """
    calls: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for collective in of_sort:
        calls[collective.device][collective.call].append(collective.duration_s)
    groups = of_sort[0].groups
    is_whole = groups is not None and len(calls) >= groups.ranks
    counts = {
        device: [len(call) for call in calls[device].values()]
        for device in sorted(set(calls) if is_whole else set(calls) | devices)
    }
    most = max(counts.values(), key=sum)
    whole = [device for device, count in counts.items() if count == most]
    lacking = [
        f"{name} has {sum(counts[name])} of {sum(most)}" for name in counts if name not in whole
    ]
    if groups and len(counts) < groups.ranks:
        lacking.append(f"{groups.ranks} devices take part, and {len(counts)} are recorded")
    if lacking and not is_partial:
        raise ValueError(f"{', '.join(lacking)}; --partial reads the rest")
    if lacking:
        print(f"warning: {of_sort[0].kind}: {', '.join(lacking)}", file=sys.stderr)
    in_time = [
        [dict(zip(whole, times)) for times in zip(*of_call)]
        for of_call in zip(*(calls[device].values() for device in whole))
    ]
    if max(most) == 1:
        in_time = [[iteration for of_call in in_time for iteration in of_call]]
    iterations = [iteration for of_call in in_time for iteration in of_call[1:]]
    if not iterations or statistics.median(max(times.values()) for times in iterations) < LEAST_S:
        raise ValueError("there is no time but that of the warm-up")
    return iterations


def _key(
    folder: Path, collective: Collective, options: Namespace, devices: int
) -> tuple[str, int, str, int]:
    """Return collective, payload, column and ranks of a figure.

    What the recording does not say, options or names of folders do, the innermost first. In
    TensorBoard's layout, plugins/profile/<time>, the three innermost names say nothing.
    """
    inner = folder.parents[2] if folder.parts[-3:-1] == ("plugins", "profile") else folder
    payload, column = (
        next((match for name in reversed(inner.parts) if (match := rule.search(name))), None)
        for rule in (options.payload_from or _TPU_V2, options.slice_from or _TPU_V2)
    )
    payload_bytes = collective.payload_bytes or options.payload
    if payload and not payload_bytes and options.payload_from:
        payload_bytes = metrics.parse_payload(payload["payload"] or "")
    elif payload and not payload_bytes:
        scale = int(payload["scale"])
        is_part = scale < 0 or payload["sign"]
        payload_bytes = MIB // max(1, abs(scale)) if is_part else MIB * scale
    if not payload_bytes:
        raise ValueError("the recording does not say the payload; give --payload or --payload-from")
    groups = collective.groups
    ranks = groups.size if groups else devices
    name = f"{'' if options.slice_from else 'v2-'}{column['slice'] or ''}" if column else ""
    if groups and groups.groups > 1:
        name = f"{name}, groups of {ranks}" if name else f"{ranks} of {groups.ranks} ranks"
    return collective.kind, payload_bytes, name or f"{ranks} ranks", ranks


def _cell(
    kind: str, payload_bytes: int, column: str, ranks: int, iterations: Sequence[Iteration]
) -> Cell:
    median_s = statistics.median(max(times.values()) for times in iterations)
    algbw = metrics.algbw_gb_per_s(payload_bytes, median_s)
    return {
        "collective": kind,
        "payload": payload_text(payload_bytes),
        "payload_bytes": payload_bytes,
        "slice": column,
        "ranks": ranks,
        "algbw_gb_per_s": algbw,
        "busbw_gb_per_s": algbw * metrics.bus_factor_of(kind, ranks),
        "slowest_rank": {"median_s": median_s},
        "iterations": [{"durations_s": dict(iteration)} for iteration in iterations],
    }


def lines(figures: Sequence[Cell], rate: str) -> Iterator[str]:
    """Yield a table in Markdown for each kind of collective."""
    for kind in dict.fromkeys(cell["collective"] for cell in figures):
        of_kind = [cell for cell in figures if cell["collective"] == kind]
        rates = {
            (cell["payload"], cell["slice"]): f"{cell[f'{rate}_gb_per_s']:.4g}" for cell in of_kind
        }
        names = sorted({name for _, name in rates}, key=lambda name: (len(name), name))
        factor = f" x {COLLECTIVES[kind].bus_factor_text}" if rate == "busbw" else ""
        yield (
            f"{kind}, {rate} = payload / time{factor}, GB = 10^9 bytes\n"
            "The time is the median over iterations of the slowest rank, without warm-ups.\n\n"
            f"| payload | {' | '.join(f'{name} (GB/s)' for name in names)} |\n"
            f"|--------:|{'|'.join('-' * (len(name) + 8) + ':' for name in names)}|"
        )
        for size in dict.fromkeys(size for size, _ in rates):
            row = (rates.get((size, name), "").rjust(len(name) + 7) for name in names)
            yield f"| {size:>7} | {' | '.join(row)} |"
        yield ""
        for name in names:
            counts = [len(cell["iterations"]) for cell in of_kind if cell["slice"] == name]
            yield f"{name}: {sum(counts)} iterations"
        yield ""
