"""`busbw run [OPTIONS]`: pytest with busbw's plugin and, unless tests are named, its promises.

This process becomes pytest's, so that its terminal, its signals and its exit code are pytest's own.
Started on several hosts by a launcher, rank 0 becomes pytest, which listens, and has an agent for
its own host; the others become agents, and end with it.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import socket
import sys
import time
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import NoReturn

from busbw.agent.handshake import (
    JoinError,
    Place,
    SecretError,
    SessionOver,
    address_text,
    is_any,
    is_loopback,
    number_of,
    secret_of,
)
from busbw.agent.serve import AgentError, take_part
from busbw.driver.agent_starters import start_agent
from busbw.driver.peers import hand_over, listening_at

from . import ranks
from .command import CommandError, Commands
from .ranks import Options, Part, RankError

ORDER = -2

# -B: no file is written beside installed ones.
_PYTEST = ("-B", "-m", "pytest", "-p", "busbw.plugin", "-p", "busbw.plugin.promises")
_AGAIN_S = 0.5

_DESCRIPTION = f"""\
Measure and judge: pytest with busbw's tests and all of pytest's options, which are listed below.

Where a launcher starts this command on several hosts, they measure together: rank 0 runs pytest,
the others are its agents. All of them need the same secret (docs/hosts.md). Options of its own:

  --rank=I              which rank this is, where no launcher says it; with --agents=N, --session
  --session=HOST:PORT   where rank 0 listens, the same on all ranks (default: by the launcher)
  --launcher=NAME       who started the ranks: {", ".join(ranks.NAMES)}
                        (default: auto)
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="measure and judge; takes pytest's options: busbw run --help",
        usage="busbw run [OPTIONS] [TESTS]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # No argument begins with this, so that all are taken as they are.
        prefix_chars="\0",
        add_help=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    asked = ranks.options_of(options.options, os.environ.get("PYTEST_ADDOPTS", ""))
    part = ranks.part_of(asked, os.environ)
    if part is None:
        if {"-h", "--help"} & set(asked.passed):
            print(_DESCRIPTION)
        _become_pytest(asked.passed)
    if part.rank == 0:
        _lead(part, asked)
    return _follow(part, asked)


def _become_pytest(options: Sequence[str]) -> NoReturn:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *_PYTEST, *options])


def _lead(part: Part, asked: Options) -> NoReturn:
    wait_s = asked.wait_s
    try:
        # pytest needs it, too, and takes it out of its environment before it starts anything, as it
        # does where nobody leads: so there is one way for both.
        secret = _secret(asked, dict(os.environ))
    except SecretError as error:
        raise RankError(str(error)) from error
    listening = _listening(part, wait_s)
    address = address_text(*listening.getsockname()[:2])
    # It is kept: what ends it is the session's goodbye, or the end of this process.
    agent = start_agent(address, 0, secret, f"--wait={math.ceil(wait_s)}", log=sys.stderr.fileno())
    hand_over(listening, os.environ)
    options = [f"--agents={part.count}", f"--listen={address}"]
    if not asked.value("--processes"):
        options.append(f"--processes={part.count}")
    try:
        _become_pytest([*options, *asked.passed])
    finally:
        # Only where there is no pytest to become.
        agent.kill()


def _listening(part: Part, wait_s: float) -> socket.socket:
    """Where rank 0 listens. Raises RankError for what is no address for the other ranks."""
    number = _number(part.host, wait_s)
    accepted = f"accepted is {ranks.ADDRESS}"
    if is_any(number):
        raise RankError(
            f"{part.address}: every network of this host could connect there; {accepted}"
        )
    if part.spans_hosts and is_loopback(number):
        words = f"{part.host} is {number} on this host, which no other host reaches"
        raise RankError(f"{words}; {accepted}")
    try:
        return listening_at(number, part.port)
    except OSError as error:
        # Python adds the address to the words of the system.
        words = os.strerror(error.errno) if error.errno else str(error)
        raise RankError(f"{part.address}: {words}; {accepted}") from error


def _number(host: str, wait_s: float) -> str:
    """The address of rank 0's host, whose name may not be known yet when a pod begins."""
    end_s = time.monotonic() + wait_s
    while True:
        try:
            return number_of(host)
        except (OSError, UnicodeError) as error:
            if time.monotonic() > end_s:
                words = f"there is no host {host!r}; accepted is {ranks.ADDRESS}"
                raise RankError(words) from error
        time.sleep(min(_AGAIN_S, wait_s))


def _follow(part: Part, asked: Options) -> int:
    place = Place(
        host=part.host, port=part.port, rank=part.rank, name=platform.node() or "localhost"
    )
    try:
        take_part(place, _secret(asked, os.environ), asked.wait_s)
    except SessionOver as error:
        print(f"busbw run: {error}", file=sys.stderr)
    except (SecretError, JoinError, AgentError) as error:
        raise CommandError(str(error)) from error
    return 0


def _secret(asked: Options, environment: MutableMapping[str, str]) -> bytes:
    text = asked.value("--secret-file")
    return secret_of(Path(os.path.expanduser(text)) if text else None, environment)
