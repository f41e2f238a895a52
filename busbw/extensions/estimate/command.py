"""`busbw estimate`: calculate the cost of gradient synchronization in a training step.

The table lists each method on each number of hosts, the fastest first. In the table MB is 10^6
bytes, as in the stated rates of links. Values in the JSON document are bytes and seconds.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Mapping
from typing import Any

from busbw import wire
from busbw.cli import Subparsers, add_command
from busbw.extensions.estimate import costs
from busbw.extensions.estimate.costs import Cost, LinkByPlace, LinkPlace
from busbw.model.words import plural, seconds_text
from busbw.report.table import Column, Table, make_rows, render
from busbw.session.option import UsageError, number_type

_DESCRIPTION = """
Estimate by formula what gradient synchronization costs a training step. For each placement of the
ranks and each method, print the traffic of a rank, the time of communication and of the step, and
the efficiency, best first. docs/studies.md lists formulas, models and links.
"""
_LINK_HELP = "a rate in one direction or a link's name, and perhaps a latency: 150GB/s,5us"


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `busbw estimate` and its options to `commands`."""
    parser = add_command(
        commands,
        "estimate",
        run,
        help="Estimate what gradient synchronization costs a training step",
        description=_DESCRIPTION,
        example="busbw estimate --model=resnet-50 --ranks=8 --bandwidth=10gbe",
    )
    _add_gradient_options(parser)
    add = parser.add_argument
    dtypes = costs.KNOWN["bytes_of_dtype"]
    add("--dtype", choices=dtypes, help="Dtype of a gradient (default: float32)")
    add(
        "--ranks",
        type=number_type(int, 2),
        required=True,
        metavar="N",
        help="Number of ranks",
    )
    add(
        "--hosts",
        type=costs.parse_count_list,
        default=[],
        metavar="H",
        help="Numbers of hosts besides 1",
    )
    add(
        "--servers",
        type=costs.parse_count_list,
        metavar="K",
        help="Parameter servers (default: 1,RANKS)",
    )
    add(
        "--bandwidth",
        type=costs.parse_link,
        metavar="LINK",
        help=f"Link of both levels: {_LINK_HELP}",
    )
    add("--intra", type=costs.parse_link, metavar="LINK", help="Link of a rank inside its host")
    add("--inter", type=costs.parse_link, metavar="LINK", help="Link of a host to the other hosts")
    add(
        "--compute",
        type=costs.parse_time,
        metavar="TIME",
        help="Time of a step without communication",
    )
    add(
        "--want-efficiency",
        type=costs.parse_efficiency,
        metavar="P",
        help="Also compute the bandwidth that this efficiency needs, such as 0.9",
    )
    add("--json", action="store_true", help="Print JSON instead of a table")


def _add_gradient_options(parser: argparse.ArgumentParser) -> None:
    """Add --model, --parameters and --gradient-bytes, of which the user must give exactly one."""
    group = parser.add_argument_group("gradients (one of these)")
    gradients = group.add_mutually_exclusive_group(required=True)
    names = ", ".join(costs.KNOWN["parameters_of_model"])
    gradients.add_argument(
        "--model",
        type=str.lower,
        choices=costs.KNOWN["parameters_of_model"],
        metavar="NAME",
        help=f"Gradients of {names}",
    )
    gradients.add_argument(
        "--parameters",
        type=costs.parse_parameters,
        metavar="N",
        help="Gradients of 138M parameters",
    )
    gradients.add_argument(
        "--gradient-bytes",
        type=costs.parse_size,
        metavar="SIZE",
        help="Gradients of 553.36MB or 25MiB",
    )


def run(options: argparse.Namespace) -> int:
    """Print the estimates as a table or, with --json, as JSON, and return the exit code 0.

    Raises UsageError if the options are wrong, or if no method can be estimated.
    """
    if options.want_efficiency is not None and options.compute is None:
        raise UsageError("--want-efficiency needs --compute")
    if options.dtype and options.gradient_bytes:
        raise UsageError("--dtype: expected --model or --parameters, got --gradient-bytes")
    document = _estimates_document(options)
    if not document["estimates"]:
        raise UsageError("; ".join(document["notes"]))
    print(json.dumps(document, indent=1) if options.json else _report_text(document, options))
    return 0


def _estimates_document(options: argparse.Namespace) -> dict[str, Any]:
    """Return the document that --json prints: the gradients, the links, and all estimates.

    There is an estimate for each method on each number of hosts, sorted by the time of
    communication, the shortest first. A method that needs a link without a rate is left out, and
    a note of the document says so. ``gradients`` is the name of the model with --model,
    ``parameters`` with --parameters, and ``gradients`` with --gradient-bytes. Raises UsageError if
    a number of hosts does not divide the number of ranks.
    """
    name = "gradients"
    parameters = None
    payload_bytes = options.gradient_bytes
    if payload_bytes is None:
        name = options.model or "parameters"
        parameters = round(options.parameters or costs.KNOWN["parameters_of_model"][options.model])
        payload_bytes = parameters * costs.KNOWN["bytes_of_dtype"][options.dtype or "float32"]
    links = {level: getattr(options, level.value) or options.bandwidth for level in LinkPlace}
    links = {level: link for level, link in links.items() if link is not None}
    estimates = []
    notes = []
    for hosts in dict.fromkeys([1, *options.hosts]):
        missing: set[str] = set()
        for method, cost in _cost_by_method(payload_bytes, hosts, options).items():
            missing |= {f"--{level}" for level in cost.flows if level not in links}
            if cost.flows.keys() <= links.keys():
                estimates.append(_method_estimate(method, hosts, cost, links, options))
        if missing:
            needs = f"{' and '.join(sorted(missing))} (or --bandwidth)"
            notes.append(f"methods left out on {plural(hosts, 'host')}: expected {needs}")
    return {
        "gradients": name,
        "payload_bytes": payload_bytes,
        "parameters": parameters,
        "ranks": options.ranks,
        "links": wire.to_json(links),
        "estimates": sorted(estimates, key=lambda estimate: estimate["communication_s"]),
        "notes": notes,
    }


def _cost_by_method(
    payload_bytes: float, hosts: int, options: argparse.Namespace
) -> Mapping[str, Cost]:
    """Return the Cost of each method on `hosts` hosts, by the name of the method.

    Methods with parameter servers have an item for each number of servers. Raises UsageError if
    `hosts` does not divide the number of ranks.
    """
    ranks = options.ranks
    shape = (payload_bytes, ranks, hosts)
    if ranks % hosts:
        raise UsageError(f"--hosts: expected a divisor of {ranks} ranks, got {hosts}")
    methods = {
        "ring all-reduce": costs.ring_cost(*shape),
        "naive ring all-reduce": costs.naive_ring_cost(*shape),
    }
    for count in options.servers or (1, ranks):
        name = f"parameter server, {count}"
        if options.servers or count == 1:
            methods[f"{name} dedicated"] = costs.dedicated_parameter_servers_cost(*shape, count)
        if count <= ranks:
            methods[f"{name} beside workers"] = costs.colocated_parameter_servers_cost(
                *shape, count
            )
    return methods


def _method_estimate(
    method: str, hosts: int, cost: Cost, links: LinkByPlace, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the estimate of a method with the given `cost` as a JSON object.

    Bytes and times are those of a training step. The keys of the object:

    - ``traffic_bytes`` are sent by the busiest rank.
    - ``server_bytes`` are received by each parameter server; None without servers.
    - ``communication_s`` is the time of communication.
    - ``bottleneck`` is the level and the link that take the most time.
    - ``step_s`` is the time of a step with communication; None without --compute.
    - ``efficiency`` is the fraction of a step that computes; None without --compute.
    - ``needed_bytes_per_s`` is the bandwidth of the bottleneck that --want-efficiency needs; None
      without --want-efficiency, or if no bandwidth suffices.

    Args:
        method: The name of the method.
        hosts: The number of hosts.
        cost: The traffic of the method in a step.
        links: The link of each level.
        options: The options of `busbw estimate`.

    """
    communication_s = cost.predict_seconds(links)
    bottleneck = cost.bottleneck_level(links)
    estimate = {
        "method": method,
        "hosts": hosts,
        "traffic_bytes": cost.sent_bytes,
        "server_bytes": cost.server_bytes,
        "communication_s": communication_s,
        "bottleneck": f"{bottleneck.value}: {links[bottleneck].name}",
        "step_s": None,
        "efficiency": None,
        "needed_bytes_per_s": None,
    }
    if options.compute is not None:
        estimate["step_s"] = options.compute + communication_s
        # P = Ts / (Ts + Tt): "tensorflow分布式", formula (1).
        estimate["efficiency"] = options.compute / estimate["step_s"]
    if options.want_efficiency is not None:
        # Tt = (1-P)/P Ts: "tensorflow分布式", formula (2).
        limit_s = (1 / options.want_efficiency - 1) * options.compute
        estimate["needed_bytes_per_s"] = cost.needed_bytes_per_s(links, limit_s)
    return estimate


def _report_text(document: Mapping[str, Any], options: argparse.Namespace) -> str:
    """Return the text that is printed without --json: inputs, a table of the estimates, and notes.

    `document` is the result of `_estimates_document`.
    """
    lines = [
        f"{document['gradients']}: {_mb_text(document['payload_bytes'])} MB of gradients, "
        f"{options.ranks} ranks; MB is 10^6 bytes"
    ]
    if options.compute is not None:
        lines.append(f"computing: {seconds_text(options.compute)} a step")
    for level, link in document["links"].items():
        rate = link["bytes_per_s"] / 1e6
        latency = seconds_text(link["latency_s"])
        lines.append(f"{level}: {rate:.6g} MB/s in each direction, {latency} a message")
    fitted_column = functools.partial(Column, is_fitted_to_cells=True, gap=2)
    table = Table(
        columns=(
            fitted_column("method", "method", left_aligned=True),
            fitted_column("hosts", "hosts"),
            fitted_column("traffic_bytes", "MB a rank", text=_mb_text),
            fitted_column("communication_s", "communication", text=seconds_text),
            fitted_column("step_s", "step", text=seconds_text),
            fitted_column("efficiency", "efficiency", text="{:.4f}".format),
            fitted_column("needed_bytes_per_s", "needed MB/s", text=_mb_text),
            fitted_column("bottleneck", "bottleneck", left_aligned=True),
        ),
        rows=make_rows(document["estimates"]),
        missing_text="-",
    )
    lines += ["", *render("text", table), *(f"note: {note}" for note in document["notes"])]
    return "\n".join(lines)


def _mb_text(byte_count: float) -> str:
    """Return a number of bytes as text in MB (10^6 bytes), in six digits and without the unit."""
    return f"{byte_count / 1e6:.6g}"
