"""The processes of one session that a launcher started on several hosts.

Rank 0 becomes the session's command, which listens, and starts an agent for its own host; the
others become agents, and end with the session.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import platform
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import busbw
from busbw.driver.process import child, without_secret
from busbw.hosts.handshake import (
    JoinError,
    Place,
    SecretError,
    SessionOver,
    address,
    address_text,
    is_any,
    is_loopback,
    number_of,
    secret_of,
)
from busbw.hosts.launchers import FINDERS, Finder, Launched, launched
from busbw.hosts.peers import hand_over, listening_at
from busbw.hosts.serve import AgentError, take_part
from busbw.model.words import plural, refusal
from busbw.session import forms, homes

from . import CommandError, command_error, raised_as

RANK, SESSION, LAUNCHER = OWN = ("--rank", "--session", "--launcher")
AUTO, NONE = "auto", "none"
NAMES = (AUTO, NONE, *FINDERS)

# No service is registered from here on, and Linux gives none of these ports to a program that asks
# for a free one: by default those are 32768 to 60999.
_FIRST_PORT, _LAST_PORT = 61000, 65535

ADDRESS = "--session=HOST:PORT, an address of rank 0's host and a free port, the same on all ranks"
_ALONE = "--launcher=none for a session without this launcher"
_SHOWS = ("-h", "--help", "-V", "--version")
_WAIT_S = 60.0

_AGENT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from busbw.__main__ import main; "
    "sys.exit(main())"
)
_AGAIN_S = 0.5


def take(part: Part, asked: Options, command: Sequence[str]) -> int:
    """Be an agent or, as rank 0, become `command`, which listens for all of them."""
    if part.rank == 0:
        _lead(part, asked, command)
    return _follow(part, asked)


def become(command: Sequence[str], options: Sequence[str]) -> NoReturn:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *command, *options])


def _lead(part: Part, asked: Options, command: Sequence[str]) -> NoReturn:
    wait_s = asked.wait_s
    with rank_error(SecretError):
        # The command needs it, too, and takes it out of its environment before it starts anything,
        # as it does where nobody leads: so there is one way for both.
        secret = _secret(asked, dict(os.environ))
    listening = _listening(part, wait_s)
    address = address_text(*listening.getsockname()[:2])
    # It is kept: what ends it is the session's goodbye, or the end of this process.
    agent = _own_agent(address, secret, wait_s)
    hand_over(listening, os.environ)
    options = [f"--agents={part.count}", f"--listen={address}"]
    if not asked.value("--processes"):
        options.append(f"--processes={part.count}")
    try:
        become(command, [*options, *asked.passed])
    finally:
        # Only where there is no command to become.
        agent.kill()


def _own_agent(address: str, secret: bytes, wait_s: float) -> subprocess.Popen[bytes]:
    """The agent of this host, which connects to `address`, with the package that is here."""
    command = [sys.executable, "-c", _AGENT, str(Path(busbw.__file__).parents[1]), "agent"]
    command += [f"--session={address}", "--rank=0", f"--wait={math.ceil(wait_s)}"]
    log = sys.stderr.fileno()
    process = child(command, (subprocess.PIPE, log, log), without_secret(os.environ))
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(secret + b"\n")
    return process


def _listening(part: Part, wait_s: float) -> socket.socket:
    """Where rank 0 listens. Raises RankError for what is no address for the other ranks."""
    number = _number(part.host, wait_s)
    accepted = f"accepted is {ADDRESS}"
    if is_any(number):
        words = f"{part.address}: every network of this host could connect there"
        raise RankError(f"{words}; {accepted}")
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
                words = f"there is no host {host!r}; accepted is {ADDRESS}"
                raise RankError(words) from error
        time.sleep(min(_AGAIN_S, wait_s))


def _follow(part: Part, asked: Options) -> int:
    with command_error(SecretError, JoinError, AgentError):
        try:
            take_part(part, _secret(asked, os.environ), asked.wait_s)
        except SessionOver as error:
            print(f"busbw run: {error}", file=sys.stderr)
    return 0


def _secret(asked: Options, environment: MutableMapping[str, str]) -> bytes:
    text = asked.value("--secret-file")
    with rank_error(ValueError):
        path = homes.expanded(text) if text else None
    return secret_of(path, environment)


class RankError(CommandError):
    """Options and a launcher that do not fit; the exit code is that of pytest's usage errors."""

    exit_code = 4


rank_error = functools.partial(raised_as, RankError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """`own` options of `busbw run`, those `passed` to pytest, and pytest's `defaults`."""

    own: Mapping[str, str]
    passed: tuple[str, ...]
    defaults: tuple[str, ...]

    @property
    def are_shown(self) -> bool:
        """Whether pytest is only to say which options or which version it has."""
        return any(word in _SHOWS for word in _before_files(self.passed))

    def value(self, flag: str) -> str:
        """The last value of an option of pytest; empty without one."""
        words = [*self.defaults, *_before_files(self.passed)]
        found = ""
        for word, following in zip(words, [*words[1:], ""]):
            name, equals, text = word.partition("=")
            if name == flag:
                found = text if equals else following
        return found

    @property
    @rank_error(ValueError)
    def wait_s(self) -> float:
        """How long the session and its agents wait for each other. Raises RankError."""
        text = self.value("--agents-wait")
        return forms.checked("agents_wait", forms.seconds, text) if text else _WAIT_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Part(Place):
    """One among `count`, of which rank 0 listens. `spans_hosts`: they are on several."""

    name: str = field(default_factory=lambda: platform.node() or "localhost")
    count: int
    spans_hosts: bool = False


def options_of(words: Sequence[str], defaults: str = "") -> Options:
    """What `words` say; `defaults` is the text of PYTEST_ADDOPTS. Raises RankError."""
    own: dict[str, str] = {}
    passed: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            passed += [word, *rest]
        elif name not in OWN:
            passed.append(word)
        else:
            own[name] = value if equals else next(rest, "")
            if not own[name]:
                raise RankError(f"{name}: there is no value")
    try:
        found = tuple(shlex.split(defaults))
    except ValueError as error:
        raise RankError(f"PYTEST_ADDOPTS: {error}: {defaults[:60]!r}") from error
    return Options(own=own, passed=tuple(passed), defaults=found)


@rank_error(ValueError)
def part_of(
    options: Options, environment: Mapping[str, str], finders: Mapping[str, Finder] = FINDERS
) -> Part | None:
    """The part of this process in a session of several; None alone. Raises RankError."""
    if options.are_shown:
        return None
    if RANK in options.own:
        return _part(options, _by_options(options))
    found = _by_launcher(options, environment, finders)
    if found is not None and found.count != 1:
        return _part(options, found)
    if SESSION in options.own:
        words = found.started if found else "no launcher has started this process"
        raise ValueError(f"{SESSION}: {words}; accepted with --rank=I and --agents=N")
    return None


def port_of(job: str) -> int:
    """From 61000 on, beyond Linux's range for connections; the same on all ranks."""
    number = int.from_bytes(hashlib.sha256(job.encode()).digest()[:8], "big")
    return _FIRST_PORT + number % (_LAST_PORT - _FIRST_PORT + 1)


def _before_files(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("--")] if "--" in words else words


def _by_options(options: Options) -> Launched:
    """What options say in the place of a launcher."""
    rank = forms.checked("rank", forms.whole(0), options.own[RANK])
    agents = options.value("--agents")
    if not agents or SESSION not in options.own:
        raise ValueError(f"{RANK}={rank}: accepted with --agents=N and --session=HOST:PORT")
    count = forms.checked("agents", forms.whole(1), agents)
    return Launched(launcher=NONE, rank=rank, count=count, job="", one_host=True)


def _part(options: Options, found: Launched) -> Part:
    count = _count(options, found) if found.count is None else found.count
    if SESSION in options.own:
        host, port = forms.checked("session", address, options.own[SESSION])
    elif found.unnamed:
        raise ValueError(f"{found.unnamed}; accepted is {ADDRESS}")
    else:
        host, port = found.host, port_of(found.job)
    if found.rank >= count:
        raise ValueError(f"rank {found.rank}: of {plural(count, 'agent')} ranks are below {count}")
    if options.value("--listen"):
        raise ValueError(f"--listen: accepted are {ADDRESS}, and --launcher=none without a rank")
    spans_hosts = not found.one_host
    return Part(rank=found.rank, count=count, host=host, port=port, spans_hosts=spans_hosts)


def _by_launcher(
    options: Options, environment: Mapping[str, str], finders: Mapping[str, Finder]
) -> Launched | None:
    """What it says. One that is named has started this, and --agents is as many as it started."""
    name, agents = options.own.get(LAUNCHER, AUTO), options.value("--agents")
    if name not in NAMES:
        raise ValueError(f"{LAUNCHER}: {refusal(name, NAMES)}")
    asked = {one: find for one, find in finders.items() if name in (AUTO, one)}
    # A host of a slice may measure other devices by itself.
    is_for_tpus = options.value("--device") in ("", AUTO, "tpu") and not options.value("--topology")
    if name == AUTO and not is_for_tpus:
        asked.pop("tpu", None)
    found = launched(environment, asked)
    if found is None and name in finders:
        raise ValueError(f"{LAUNCHER}={name}: it has not started this process")
    count = found.count if found else None
    if found is None or count is None or not agents or (count, agents) == (1, "local"):
        return found
    if not agents.isdecimal() or int(agents) != count:
        accepted = f"accepted are --agents={count}, or {_ALONE}"
        raise ValueError(f"--agents={agents}: {found.started}; {accepted}")
    return found


def _count(options: Options, found: Launched) -> int:
    """The count that a launcher does not know. Raises ValueError where options do not say it."""
    agents = options.value("--agents")
    texts = {"--agents=N": agents, "--session=HOST:PORT": options.own.get(SESSION)}
    missing = [flag for flag, text in texts.items() if not text]
    if missing:
        raise ValueError(
            f"{found.launcher} started this process as rank {found.rank} and says no more; missing "
            f"{'are' if len(missing) > 1 else 'is'} {' and '.join(missing)}; accepted is also "
            f"{_ALONE}"
        )
    return forms.checked("agents", forms.whole(1), agents)
