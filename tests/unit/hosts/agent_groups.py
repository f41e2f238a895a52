"""Groups on agents that a test starts: those of a session itself, and those of somebody else."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from busbw.driver.bundle import Bundle
from busbw.driver.group import Group
from busbw.driver.transport import Starter
from busbw.hosts.agents import AgentsTransport
from busbw.hosts.hub import Timing
from busbw.hosts.starters import AgentStarter
from busbw.model.cluster import Cluster
from busbw.model.launch import LaunchId
from tests.helpers.agents import LONG_S, SECRET, agent, listening
from tests.helpers.workers import processes, starter

CLUSTER = Cluster(processes=4)
LAUNCH = LaunchId.parse("1.fake")


def of_this_host(bundle: Bundle, secret: bytes, count: int) -> AgentsTransport:
    """Agents that the session starts itself."""
    return AgentsTransport(bundle, None, secret, count, starter=AgentStarter(bundle, secret))


@contextmanager
def local(bundle: Bundle, count: int = 2) -> Iterator[AgentsTransport]:
    """Agents of this host that the session starts; they are gone in the end."""
    secret = secrets.token_hex(32).encode()
    with contextlib.closing(of_this_host(bundle, secret, count)) as found:
        found.join(LONG_S)
        yield found


@contextmanager
def waiting(
    bundle: Bundle, count: int, timing: Timing | None = None
) -> Iterator[tuple[AgentsTransport, int]]:
    """What so many agents may join, and its port; closed at the end."""
    port = listening()
    with contextlib.closing(AgentsTransport(bundle, port, SECRET, count, timing=timing)) as found:
        yield found, port.getsockname()[1]


@contextmanager
def remote(
    bundle: Bundle, *hosts: str, timing: Timing | None = None
) -> Iterator[tuple[AgentsTransport, list[int]]]:
    """Agents that were started by somebody, on hosts of these names; and their process ids."""
    with contextlib.ExitStack() as held:
        found, number = held.enter_context(waiting(bundle, len(hosts), timing))
        agents = [
            held.enter_context(agent(number, rank, host=host)) for rank, host in enumerate(hosts)
        ]
        found.join(LONG_S)
        yield found, [one.pid for one in agents]


@contextmanager
def group(
    transport: AgentsTransport, begin: Starter | None = None, cluster: Cluster = CLUSTER
) -> Iterator[Group]:
    """A group that is ready; ended at the end."""
    found = Group(transport, begin or starter(), LAUNCH, cluster)
    try:
        assert found.begin(LONG_S) is None
        yield found
    finally:
        found.kill()


def workers() -> list[int]:
    """The workers of this test's agents, of all folders."""
    return processes(Path(os.environ["TMPDIR"]))
