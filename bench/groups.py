"""What a group of many processes costs the session, per message, and what a large slice would cost.

`python -m bench.groups`. The session's own time is its processor time: that of the processes and of
their network is another matter. Its workers have the fake back end and answer at once.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import statistics
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.output import check_output
from busbw import driver, wire, writing
from busbw.driver.group import Group
from busbw.driver.transport import Transport, checked_reply
from busbw.model import Failure, LaunchId, Proof, Run

TITLE = "# What many processes cost the session"

COUNTS = (1, 2, 4, 8, 16, 32)
AGENTS = (2, 4, 8, 16)
RANKS = (8, 256, 4096)
HOSTS, SLICE_RANKS = 256, 4096
_ASKED = 40
_LONG_S = 120.0
_WIDTH = 100
_MOST_DESCRIPTORS = 1024

_ABOUT = """
The session asks all processes of a group, waits for their answers, checks them and makes one of
them. The table has the session's own processor time for one request and its reply, with groups of
workers that answer at once: the median over {asked} requests. *start* is its processor time to
start one process. All processes run on this host.
"""
_ANSWERS = """
An answer grows with the ranks, since with the device's clock it has the time of each of them. To
check one takes the session:
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of a group of `count` processes, in seconds of the session's processor time."""

    count: int
    start_s: float
    message_s: float
    wall_s: float


def main() -> None:
    """Measure, and print the page; nothing else may run on the machine meanwhile."""
    parser = argparse.ArgumentParser(prog="bench.groups", description=__doc__)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it to FILE, too")
    options = parser.parse_args()
    if options.output is not None:
        check_output(parser, options.output, TITLE)
    bundle = driver.Bundle()
    try:
        costs = [cost(driver.LocalTransport(bundle), count) for count in COUNTS]
        under_agents = [_under_agents(bundle, count) for count in AGENTS]
    finally:
        bundle.remove()
    parsing = {ranks: parse_s(ranks) for ranks in RANKS}
    lines = "\n".join(page(costs, under_agents, parsing))
    print(lines)
    if options.output is not None:
        writing.write(options.output, lines + "\n")


def _under_agents(bundle: driver.Bundle, count: int) -> Cost:
    """Of as many processes, each started by an agent of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    secret = secrets.token_hex(32).encode()
    starter = driver.LocalAgents(bundle, listening.getsockname()[1], secret)
    transport = driver.AgentsTransport(bundle, listening, secret, count, starter=starter)
    try:
        transport.join(_LONG_S)
        return cost(transport, count)
    finally:
        transport.close()


def cost(transport: Transport, count: int) -> Cost:
    """What a group of `count` processes costs. Raises SystemExit if it does not answer."""
    starter = driver.Starter(
        python=sys.executable, framework="fake", device="cpu", ranks=2 * count, processes=count
    )
    begun_s = time.process_time()
    group = Group(transport, starter, LaunchId.parse("1.fake"), starter.cluster)
    try:
        failure = group.begin(_LONG_S)
        start_s = (time.process_time() - begun_s) / count
        if failure is not None:
            raise SystemExit(failure.message)
        asked = [_asked(group) for _ in range(_ASKED)]
        group.close()
    finally:
        group.kill()
    own_s, wall_s = (statistics.median(column) for column in zip(*asked, strict=True))
    return Cost(count=count, start_s=start_s, message_s=own_s / count, wall_s=wall_s)


def _asked(group: Group) -> tuple[float, float]:
    """Seconds of the session's processor, and of the clock, for a request to all and its answer."""
    own_s, wall_s = time.process_time(), time.perf_counter()
    answer = group.ask(driver.Request("probe"), _LONG_S, "asking")
    if isinstance(answer, Failure):
        raise SystemExit(answer.message)
    return time.process_time() - own_s, time.perf_counter() - wall_s


def parse_s(ranks: int) -> tuple[float, int]:
    """Seconds to check the answer of one process about `ranks` ranks, and its bytes."""
    run = Run(
        launch=LaunchId.parse("1.jax"),
        iterations=2,
        samples_s=tuple(1e-3 + 1e-6 * index for index in range(10)),
        compile_s=0.1,
        values_checked=1,
        proof=Proof(collectives={"all-reduce": 1}, payload_copies=0, algorithm="ring"),
        clock="device",
        framework_path="/somewhere",
        versions={"jax": "0.10.2"},
        rank_times_s=tuple(1e-3 + 1e-7 * rank / 3 for rank in range(ranks)),
    )
    line = json.dumps({"reply": "Run", "value": wire.to_json(run)}).encode()
    begun_s = time.process_time()
    times = 20
    for _ in range(times):
        checked_reply(line, "measure")
    return (time.process_time() - begun_s) / times, len(line)


def page(
    costs: Sequence[Cost], under_agents: Sequence[Cost], parsing: Mapping[int, tuple[float, int]]
) -> Iterator[str]:
    """The lines of the page."""
    yield TITLE
    yield ""
    yield "How long the session itself takes for groups of processes, and what a large slice takes."
    yield ""
    yield "Written by `python -m bench.groups`."
    yield ""
    yield from textwrap.wrap(_ABOUT.format(asked=_ASKED).strip(), _WIDTH)
    yield ""
    yield "Started by the session itself:"
    yield ""
    yield from _table(costs)
    yield ""
    yield "Each under an agent of its own, whose connection the session serves too:"
    yield ""
    yield from _table(under_agents)
    yield ""
    yield from textwrap.wrap(_ANSWERS.strip(), _WIDTH)
    yield ""
    yield "| ranks | an answer, KiB | to check it, ms |"
    yield "|---:|---:|---:|"
    for ranks, (seconds, size) in parsing.items():
        yield f"| {ranks} | {size / 1024:.0f} | {1e3 * seconds:.2f} |"
    yield ""
    yield f"## {HOSTS} hosts, {SLICE_RANKS} chips"
    yield ""
    yield from _large(under_agents[-1], *parsing[SLICE_RANKS])


def _table(costs: Sequence[Cost]) -> Iterator[str]:
    yield "| processes | start, ms each | request and reply, us each | all of them, ms |"
    yield "|---:|---:|---:|---:|"
    for one in costs:
        cells = (
            f"{1e3 * one.start_s:.1f}",
            f"{1e6 * one.message_s:.0f}",
            f"{1e3 * one.wall_s:.1f}",
        )
        yield f"| {one.count} | {' | '.join(cells)} |"


def _large(cost: Cost, check_s: float, answer_bytes: int) -> Iterator[str]:
    """What a large slice would cost, from the figures above, and what would break first."""
    start_s, message_s = HOSTS * cost.start_s, HOSTS * cost.message_s
    answers_s, answers_bytes = HOSTS * check_s, HOSTS * answer_bytes
    lines = (
        f"Worked out from the last rows, with an agent and a process on each of {HOSTS} hosts:",
        f"- to start a launch: {HOSTS} x {1e3 * cost.start_s:.1f} ms = {start_s:.1f} s of the "
        "session's processor, while the processes themselves start at the same time",
        f"- a request to all and their answers: {HOSTS} x {1e6 * cost.message_s:.0f} us = "
        f"{1e3 * message_s:.0f} ms, once for each case and launch",
        f"- with the device's clock the answers about {SLICE_RANKS} ranks are {HOSTS} x "
        f"{answer_bytes / 1024:.0f} KiB = {answers_bytes / 2**20:.0f} MiB, and {answers_s:.1f} s "
        "to check, for each case and launch",
        f"- {HOSTS} connections and {HOSTS} channels of workers: {2 * HOSTS} descriptors",
        "",
        "What would break first:",
        "- the answers: every process repeats the times of all ranks, so that they grow with hosts "
        "times ranks. Only one process needs to say them",
        f"- `select`, which takes descriptors below {_MOST_DESCRIPTORS}: at some "
        f"{_MOST_DESCRIPTORS // 2} hosts, or about {_MOST_DESCRIPTORS // 3} processes on one host",
        "- a start, if any one host is slow: a launch waits for all of them. Its deadline does not "
        "grow with their number",
    )
    for line in lines:
        yield from (
            textwrap.wrap(line, _WIDTH, subsequent_indent="  " if line[:1] == "-" else "") or [""]
        )
        if line.endswith(":"):
            yield ""


if __name__ == "__main__":
    main()
