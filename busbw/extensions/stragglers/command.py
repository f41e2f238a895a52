"""`busbw find-slow --hosts=LIST`: find slow hosts and slow links between hosts.

Hosts are measured in pairs, many at once; a host that seems slow is measured again until it is
reported or cleared. The hosts of a TPU slice start together and share its links, so each chip and
each link is measured there. The exit code is 1 if a slow host, link or chip was found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from busbw import grid, metrics, storage, wire
from busbw.collectives import COLLECTIVES
from busbw.commands import (
    Commands,
    UsageError,
    add_command,
    check_file,
    command_error,
    json_with,
    usage_error,
    write_file,
)
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, ProbeFailed, probe
from busbw.driver.local import BusyError, alone
from busbw.driver.transport import HostError, HostsTransport, Starter
from busbw.extensions.page.drawing import missing_libraries
from busbw.extensions.page.page import html, is_page
from busbw.extensions.page.slow import slow_page
from busbw.extensions.stragglers.answer import DOCUMENT, Answer
from busbw.extensions.stragglers.groups import Groups
from busbw.extensions.stragglers.roll import NobodyAnswers
from busbw.extensions.stragglers.search import LEAST_HOSTS, MOST_IN_PAIRS, Found, Search
from busbw.extensions.stragglers.together import together
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Spec
from busbw.model.launch import Plan
from busbw.model.words import Device, plural
from busbw.model.workload import Workload
from busbw.report.prometheus import missing_for_metrics
from busbw.report.renderers import rendered
from busbw.session import forms
from busbw.session.option import Option, file_option, folder_option, takes
from busbw.session.options import OF_HOSTS, OPTIONS
from busbw.session.settings import hosts_of

ORDER = 1
_DESCRIPTION = f"""
Find slow hosts, links and racks. Hosts are measured in pairs, many pairs at once, until every two
hosts have been measured together. A host that seems slow is measured again, together with other
hosts, in a sequential test: in a healthy cluster at most 1 run in 100 reports a slow host or link.
More than {MOST_IN_PAIRS} hosts are measured in groups; in a TPU slice each chip and link is
measured. Exit code 1: a slow host, link or chip was found.
"""

_OPTIONS = (
    *(one for one in OPTIONS if one.name in OF_HOSTS),
    Option(
        name="framework",
        parse=forms.word(tuple(FRAMEWORKS)),
        default="jax",
        choices=tuple(FRAMEWORKS),
        help="Measure with this framework",
    ),
    Option(
        name="payloads",
        **takes("SIZES", metrics.parse_payloads, "64K,16M"),
        help="Measure these payloads: a small one for latency, a large one for bandwidth",
    ),
    Option(
        name="least",
        **takes("LOSS", forms.ratio, "1.05x"),
        help="Ignore slowdowns below this ratio, such as 1.05x or 5%%",
    ),
    Option(
        name="pairs", flag=True, help="Measure every pair of hosts, however many hosts there are"
    ),
    Option(
        name="case_timeout",
        **takes("SECONDS", forms.seconds, "60"),
        help="Give up on a pair that takes longer than this to start, or to measure one payload",
    ),
    file_option("results", "Write the result, with the times of all pairs, to FILE as JSON"),
    file_option("page", "Write the result to FILE as an HTML page, with a heat map of all pairs"),
    folder_option(
        "earlier",
        "Read earlier results (--results) from DIR, to report since when a host or link is slow",
    ),
    file_option("metrics", "Write the slow hosts and all times to FILE for Prometheus"),
    file_option(
        "write_good", "Write the hosts that are not slow to FILE, which --hosts=@FILE reads"
    ),
)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "find-slow",
        run,
        *_OPTIONS,
        help="Find slow hosts, links and chips in a cluster",
        description=_DESCRIPTION,
        example="busbw find-slow --hosts=node1,node2,node3,node4",
    )


def run(options: argparse.Namespace) -> int:
    earlier = _checked(options)
    began_s = time.monotonic()
    with command_error(HostError, BusyError, NobodyAnswers), usage_error(ValueError):
        found = replace(_found(options), earlier=earlier)
    took_s = time.monotonic() - began_s
    print(f"{found.opening}, {took_s:.0f} s", "", sep="\n")
    print(*rendered("text", found.table()), "", *found.sentences(), sep="\n")
    return _written(options, found, took_s) or int(found.is_anybody or found.is_incomplete)


def _checked(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The earlier answers, where every file can be read and written. Raises UsageError."""
    for name, what, ours in (
        ("results", "answers of busbw find-slow", json_with("document", "rounds")),
        ("metrics", "metrics", lambda text: text.startswith("# HELP busbw")),
        ("page", "pages of busbw", is_page),
        ("write_good", "lists of hosts", _are_hosts),
    ):
        check_file(f"--{name.replace('_', '-')}", getattr(options, name), what, ours)
    for name, missing in (("metrics", missing_for_metrics), ("page", missing_libraries)):
        if getattr(options, name) is not None and (why := missing()):
            raise UsageError(f"--{name}: {why}")
    return _earlier(options.earlier)


def _written(options: argparse.Namespace, found: Answer, took_s: float) -> int:
    """The exit code: 1 where a file cannot be written."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"date": date, "seconds": took_s, "framework": options.framework}
    made: Mapping[str, Callable[[], str]] = {
        "metrics": found.metrics,
        "page": lambda: html(slow_page(found)),
        "results": lambda: json.dumps(found.document(**about), indent=1) + "\n",
        "write_good": lambda: "\n".join([*found.good(), ""]),
    }
    asked = {name: getattr(options, name) for name in made}
    codes = [write_file(made[name](), path) for name, path in asked.items() if path is not None]
    return max(codes, default=0)


def _earlier(folder: Path | None) -> list[dict[str, Any]]:
    """The answers in a folder of `--results`, the latest last. Raises UsageError."""
    found = []
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        with usage_error(storage.InputError, ValueError, where=f"--earlier: {path}: "):
            document = wire.parsed(storage.read(path))
        if not isinstance(document, dict) or document.get("document") != DOCUMENT:
            raise UsageError(f"--earlier: {path}: it is no answer of this busbw find-slow")
        found.append(document)
    return sorted(found, key=lambda one: str(one.get("date", "")))


def _found(options: argparse.Namespace) -> Answer:
    cluster = hosts_of(vars(options))
    if cluster is None:
        raise UsageError("there are no hosts; expected --hosts=LIST or --cluster=ADDRESS")
    if cluster.count < LEAST_HOSTS and options.device is not Device.TPU:
        raise UsageError(
            f"{plural(cluster.count, 'host')}: expected {LEAST_HOSTS} or more: of fewer a slow "
            "host cannot be told from a slow link"
        )
    bundle = Bundle()
    with contextlib.ExitStack() as left:
        left.callback(bundle.remove)
        transport = left.enter_context(contextlib.closing(cluster.transport(bundle)))
        left.enter_context(alone(options.device_wait, _say))
        transport.join(options.device_wait)
        transport.lock(options.device_wait, _say)
        each = (options.processes or cluster.count) // cluster.count
        groups = Groups(
            transport_of=transport.for_ranks,
            starter=_starter(options, transport, each),
            specs=_specs(options),
            plan=Plan(launches=1, timeout_s=options.case_timeout),
            each=each,
        )
        return _answer(options, groups, transport.names)


def _answer(options: argparse.Namespace, groups: Groups, names: Sequence[str]) -> Answer:
    """Raises NobodyAnswers."""
    search = Search(
        hosts=len(names),
        measure=groups.measure,
        least=options.least - 1,
        in_pairs=options.pairs,
        say=_say,
    )
    is_slice = groups.starter.device == Device.TPU.value
    found = Found() if is_slice else search.run()
    _say("single chips, and who comes last to a collective of all hosts")
    # A script's clocks do not wait.
    waits = not FRAMEWORKS[options.framework].scripted
    answer = Answer(found=found, names=names)
    answer = together(answer, groups, least=search.least, waits=waits)
    if is_slice and (answer.unmeasured or not answer.found.least):
        raise NobodyAnswers(answer.unmeasured or "there are too few chips to tell a slow one")
    return answer


def _starter(options: argparse.Namespace, transport: HostsTransport, each: int) -> Starter:
    """For the device that is asked for, else for the one that the hosts have."""
    framework = FRAMEWORKS[options.framework]
    starter = Starter(
        python=sys.executable, framework=options.framework, defaults=framework.environment
    )
    device = options.device or _device(starter, transport, each)
    ranks = options.ranks_per_process or (1 if device is Device.CPU else None)
    return replace(starter, device=device.value, ranks=ranks)


def _device(starter: Starter, transport: HostsTransport, each: int) -> Device:
    """Of all hosts together, as those of a slice start; else of the first one that answers."""
    everybody = range(len(transport.names))
    why = ""
    for hosts in (everybody, *([host] for host in everybody)):
        processes = each * len(hosts)
        some = replace(starter, processes=processes, ranks=processes)
        try:
            found = probe(some, Executor(transport.for_ranks(hosts)))
        except (HostError, ProbeFailed) as error:
            why = str(error)
        else:
            there = {one.device for one in found.devices}
            return next(one for one in grid.AUTO_ORDER if one in there)
    raise NobodyAnswers(why)


def _specs(options: argparse.Namespace) -> list[Spec]:
    """All-reduce of each payload and, where the framework has it, the permute."""
    kinds = ["all_reduce"] if FRAMEWORKS[options.framework].only_sums else ["all_reduce", "permute"]
    return [
        Spec(
            framework=options.framework,
            payload_bytes=size,
            workload=Workload(
                collective=kind,
                reduce_op="sum" if COLLECTIVES[kind].reduce_ops else "none",
                placement=COLLECTIVES[kind].placements[0],
            ),
        )
        for kind in kinds
        for size in options.payloads
    ]


def _say(words: str) -> None:
    print(f"busbw: {words.removeprefix('busbw: ')}", file=sys.stderr, flush=True)


def _are_hosts(text: str) -> bool:
    """A file that it wrote: one word in each line."""
    return all(len(line.split()) == 1 for line in text.splitlines())
