"""`busbw find-slow --hosts=LIST`: find slow hosts, links between hosts, and chips.

Hosts are measured in pairs, many pairs at once, and a host that seems slow is measured again. The
hosts of a TPU slice can only start together, and share the links of the slice. So for a slice each
chip and each link between chips is measured instead of pairs of hosts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from busbw import storage, wire
from busbw.cli import (
    Subparsers,
    add_command,
    check_output_file,
    command_error,
    print_progress,
)
from busbw.driver.bundle import Bundle
from busbw.driver.local import lock_this_machine
from busbw.driver.transport import HostError
from busbw.extensions.stragglers.groups import GroupMeasurer, RoundMeasurer, make_group_measurer
from busbw.extensions.stragglers.result import (
    CHIPS_FALSE_ALARM_RISK,
    SearchResult,
    UnreachableComponent,
)
from busbw.extensions.stragglers.search import MAX_HOSTS_IN_PAIRS, MIN_HOSTS, HostSearch
from busbw.extensions.stragglers.statistics import find_deviating_chips
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import DeviceClass, plural
from busbw.report.table import render
from busbw.session.command_line import requested_hosts
from busbw.session.option import (
    UsageError,
    as_usage_error,
    parse_loss_ratio,
    parse_payloads,
    parse_seconds,
)
from busbw.session.options import OPTIONS, Options

_DESCRIPTION = f"""
Find slow hosts, links and chips. Hosts are measured in pairs, many pairs at once, until every two
hosts have been measured together. A host that seems slow is measured again, together with other
hosts, in a sequential test: in a healthy cluster at most 1 run in 100 reports a slow host or link.
More than {MAX_HOSTS_IN_PAIRS} hosts are measured in groups; in a TPU slice each chip and link is
measured. Exit code 1: a slow host, link or chip was found, or something could not be measured.
"""
# The options of sessions that name the hosts, and say how their workers are started.
_SESSION_OPTIONS = (
    *("device", "processes", "ranks_per_process", "hosts", "host_python", "cluster"),
    *("cluster_trust_network", "device_wait"),
)


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `find-slow` and its options to `commands`."""
    parser = add_command(
        commands,
        "find-slow",
        run,
        help="Find slow hosts, links and chips in a cluster",
        description=_DESCRIPTION,
        example="busbw find-slow --hosts=node1,node2,node3,node4",
    )
    add = parser.add_argument
    # The extension that declares an option may have been deleted.
    for option in (OPTIONS[name] for name in _SESSION_OPTIONS if name in OPTIONS):
        add(option.flag, **option.arguments)
    parser.set_defaults(device_wait=Options().device_wait)
    add("--framework", choices=tuple(FRAMEWORKS), default="jax", help="Measure with this framework")
    add(
        "--payloads",
        type=parse_payloads,
        default="64K,16M",
        metavar="SIZES",
        help="Measure a small payload for latency and a large one for bandwidth "
        "(default: %(default)s)",
    )
    add(
        "--least",
        type=parse_loss_ratio,
        default="5%",
        metavar="LOSS",
        help="Ignore slowdowns below this loss (default: %(default)s)",
    )
    add("--pairs", action="store_true", help="Measure every pair of hosts, however many there are")
    add(
        "--case-timeout",
        type=parse_seconds,
        default="60",
        metavar="SECONDS",
        help="Give up on a pair that takes longer to start or to measure one payload "
        "(default: %(default)s)",
    )
    add("--results", type=Path, metavar="FILE", help="Write the result with all times as JSON")
    add("--write-good", type=Path, metavar="FILE", help="Write good hosts, for --hosts=@FILE")


def run(options: argparse.Namespace) -> int:
    """Search for slow hosts, links and chips, print the result, and return the exit code.

    If requested, the result is also written as JSON to the file `options.results`, and the names of
    the good hosts to the file `options.write_good`.

    Returns:
        The exit code 0 if all hosts, links and chips are healthy. The exit code 1 if any is slow or
        unreachable, or if the search is undecided or incomplete.

    Raises:
        UsageError: The options are wrong.
        CommandError: The hosts cannot be measured.
        OSError: A file cannot be written.

    """
    check_output_file(
        "--results",
        options.results,
        "results of find-slow",
        lambda text: text.startswith('{\n "document": "busbw find-slow"'),
    )
    check_output_file(
        "--write-good",
        options.write_good,
        "lists of hosts",
        lambda text: all(len(line.split()) == 1 for line in text.splitlines()),
    )
    with command_error(HostError), as_usage_error(ValueError):
        result = _search_hosts_and_chips(options)
    print(f"{plural(len(result.hosts), 'host')}, {plural(result.rounds, 'round')}", "", sep="\n")
    print(*render("text", result.ratio_table()), "", *result.sentences(), sep="\n")
    texts = {
        options.results: json.dumps(
            {
                "document": "busbw find-slow",
                "version": wire.DOCUMENT_VERSION,
                **wire.to_json(result),
            },
            indent=1,
        )
        + "\n",
        options.write_good: "\n".join([*result.good_hosts, ""]),
    }
    for path in texts.keys() - {None}:
        storage.write(path, texts[path])
    return int(not result.is_healthy)


def _search_hosts_and_chips(options: argparse.Namespace) -> SearchResult:
    """Measure the hosts that the options name, and return the result of the search.

    Raises:
        UsageError: The options name no hosts, or too few.
        ValueError: The options are wrong in another way.
        HostError: The hosts cannot be measured.

    """
    hosts = requested_hosts(vars(options))
    is_slice = options.device is DeviceClass.TPU
    if hosts is None or (hosts.count < MIN_HOSTS and not is_slice):
        raise UsageError(
            f"expected {MIN_HOSTS} hosts or more (2 of a TPU slice, with --device=tpu), from "
            "--hosts=LIST or --cluster=ADDRESS; among fewer hosts, a slow host cannot be told from "
            "a slow link"
        )
    with contextlib.ExitStack() as stack:
        bundle = Bundle()
        stack.callback(bundle.remove)
        transport = stack.enter_context(contextlib.closing(hosts.make_transport(bundle)))
        stack.enter_context(lock_this_machine(options.device_wait, print_progress))
        transport.connect_hosts(options.device_wait)
        transport.lock(options.device_wait, print_progress)
        group_measurer = make_group_measurer(options, transport)
        min_loss = options.least - 1
        round_measurer = RoundMeasurer(transport.names, group_measurer.measure_groups)
        result = SearchResult(hosts=tuple(transport.names))
        if group_measurer.worker_spec.device != DeviceClass.TPU.value:
            in_pairs = options.pairs or len(transport.names) <= MAX_HOSTS_IN_PAIRS
            result = HostSearch(round_measurer, min_loss, in_pairs).run()
            links = dict.fromkeys(slow.hosts for slow in result.slow if len(slow.hosts) == 2)
            measured = {" - ".join(link): group_measurer.measure_directions(link) for link in links}
            directions = {link: times_s for link, times_s in measured.items() if times_s}
            result = replace(result, directions=directions)
        return _add_deviating_chips(
            result, group_measurer, round_measurer.reachable_hosts, min_loss
        )


def _add_deviating_chips(
    result: SearchResult, group_measurer: GroupMeasurer, hosts: Sequence[str], min_loss: float
) -> SearchResult:
    """Measure the chips of all hosts, and return `result` with the slow and fast chips and links.

    The links are those between chips. A chip can be slow in a single launch by chance. So if a
    launch shows a slow or fast chip, a second launch follows, and only chips and links that deviate
    in both launches are added.

    Args:
        result: The result of the search for slow hosts and slow links between hosts.
        group_measurer: The GroupMeasurer of that search.
        hosts: The names of the reachable hosts, whose chips are measured.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.

    Raises:
        HostError: Neither chips nor pairs of hosts have times. The hosts of a TPU slice are not
            measured in pairs, so that a slice whose chips cannot be measured has no times.

    """
    chips, reason = group_measurer.measure_chips(hosts)
    deviating, losses = find_deviating_chips(chips, hosts, min_loss, CHIPS_FALSE_ALARM_RISK)
    if deviating:
        chips, reason = group_measurer.measure_chips(hosts)
        again, _ = find_deviating_chips(chips, hosts, min_loss, CHIPS_FALSE_ALARM_RISK)
        names = {(chip.name, chip.quantity, chip.ratio > 1) for chip in again}
        deviating = [c for c in deviating if (c.name, c.quantity, c.ratio > 1) in names]
    if not result.times and (reason or not losses):
        raise HostError(reason or "expected 3 chips or more, to tell a slow one")
    # If several processes did not answer, they may all have waited for another process.
    lost = [host for host in hosts if re.match(rf"worker \d+ on {re.escape(host)}: ", reason)]
    return replace(
        result,
        rounds=group_measurer.round_count,
        slow=(*result.slow, *(chip for chip in deviating if chip.ratio > 1)),
        fast=(*result.fast, *(chip for chip in deviating if chip.ratio < 1)),
        unreachable=(
            *result.unreachable,
            *(UnreachableComponent(name=f"host {h}", hosts=(h,), reason=reason) for h in lost),
        ),
        detectable={**result.detectable, **losses},
        unmeasured=reason,
    )
