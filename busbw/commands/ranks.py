"""Which rank of a session this process is, by its options or by its launcher; or that it is alone.

Reads options of `busbw run`, and those of pytest that all ranks need. Opens no port and starts
nothing. What is wrong is a usage error with pytest's exit code, on every rank that sees it.
"""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.agent.handshake import address_text, split_address
from busbw.launchers import FINDERS, Finder, launched
from busbw.launchers.base import Launched, LauncherError
from busbw.model.words import plural, refusal

from .command import CommandError

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


class RankError(CommandError):
    """Options and a launcher that do not fit; the exit code is that of pytest's usage errors."""

    exit_code = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """`own` options of `busbw run`, those `passed` to pytest, and pytest's `defaults`."""

    own: Mapping[str, str]
    passed: tuple[str, ...]
    defaults: tuple[str, ...] = ()

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
    def wait_s(self) -> float:
        """How long the session and its agents wait for each other. Raises RankError."""
        text = self.value("--agents-wait")
        try:
            found = float(text) if text else _WAIT_S
        except ValueError:
            found = math.nan
        if not 0 < found < math.inf:
            accepted = "accepted is a number of seconds above 0"
            raise RankError(f"--agents-wait: {text!r}; {accepted}")
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The `rank` among `count`; rank 0 listens at `host` and `port`. `spans_hosts`: several."""

    rank: int
    count: int
    host: str
    port: int
    spans_hosts: bool = False

    @property
    def address(self) -> str:
        return address_text(self.host, self.port)


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


def part_of(
    options: Options, environment: Mapping[str, str], finders: Mapping[str, Finder] = FINDERS
) -> Part | None:
    """The part of this process in a session of several; None alone. Raises RankError."""
    if options.are_shown:
        return None
    if RANK in options.own:
        return _by_options(options)
    found = _found(options, environment, finders)
    if found is not None:
        _check_count(options, found)
    if found is not None and found.count != 1:
        return _by_launcher(options, found)
    if SESSION in options.own:
        words = found.started if found else "no launcher has started this process"
        raise RankError(f"{SESSION}: {words}; accepted with --rank=I and --agents=N")
    return None


def port_of(job: str) -> int:
    """From 61000 on, beyond Linux's range for connections; the same on all ranks."""
    number = int.from_bytes(hashlib.sha256(job.encode()).digest()[:8], "big")
    return _FIRST_PORT + number % (_LAST_PORT - _FIRST_PORT + 1)


def _before_files(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("--")] if "--" in words else words


def _by_options(options: Options) -> Part:
    rank = _whole(RANK, options.own[RANK])
    agents = options.value("--agents")
    if not agents or SESSION not in options.own:
        raise RankError(f"{RANK}={rank}: accepted with --agents=N and --session=HOST:PORT")
    count = _whole("--agents", agents, least=1)
    return _part(options, rank, count, *_address(options.own[SESSION]))


def _by_launcher(options: Options, found: Launched) -> Part:
    count = found.count
    if count is None:
        count = _count(options, found)
    if SESSION in options.own:
        host, port = _address(options.own[SESSION])
    elif found.unnamed:
        raise RankError(f"{found.unnamed}; accepted is {ADDRESS}")
    else:
        host, port = found.host, port_of(found.job)
    return _part(options, found.rank, count, host, port, spans_hosts=not found.one_host)


def _part(
    options: Options, rank: int, count: int, host: str, port: int, *, spans_hosts: bool = False
) -> Part:
    if rank >= count:
        raise RankError(f"rank {rank}: of {plural(count, 'agent')} ranks are below {count}")
    if options.value("--listen"):
        raise RankError(f"--listen: accepted are {ADDRESS}, and --launcher=none without a rank")
    return Part(rank=rank, count=count, host=host, port=port, spans_hosts=spans_hosts)


def _found(
    options: Options, environment: Mapping[str, str], finders: Mapping[str, Finder]
) -> Launched | None:
    """What the launcher says. Raises RankError, also where it is named and did not start this."""
    name = options.own.get(LAUNCHER, AUTO)
    if name not in NAMES:
        raise RankError(f"{LAUNCHER}: {refusal(name, NAMES)}")
    asked = {one: find for one, find in finders.items() if name in (AUTO, one)}
    if name == AUTO and not _is_for_tpus(options):
        asked.pop("tpu", None)
    try:
        found = launched(environment, asked)
    except LauncherError as error:
        raise RankError(str(error)) from error
    if found is None and name in finders:
        raise RankError(f"{LAUNCHER}={name}: it has not started this process")
    return found


def _is_for_tpus(options: Options) -> bool:
    """Whether TPUs may be measured; a host of a slice may measure other devices by itself."""
    return options.value("--device") in ("", AUTO, "tpu") and not options.value("--topology")


def _check_count(options: Options, found: Launched) -> None:
    """Raises RankError if --agents is not as many as the launcher has started."""
    agents, count = options.value("--agents"), found.count
    if not agents or count is None or (count == 1 and agents == "local"):
        return
    if not agents.isdecimal() or int(agents) != count:
        accepted = f"accepted are --agents={count}, or {_ALONE}"
        raise RankError(f"--agents={agents}: {found.started}; {accepted}")


def _count(options: Options, found: Launched) -> int:
    """The count that a launcher does not know. Raises RankError where options do not say it."""
    texts = {
        "--agents=N": options.value("--agents"),
        "--session=HOST:PORT": options.own.get(SESSION),
    }
    missing = [flag for flag, text in texts.items() if not text]
    if missing:
        raise RankError(
            f"{found.launcher} started this process as rank {found.rank} and says no more; missing "
            f"{'are' if len(missing) > 1 else 'is'} {' and '.join(missing)}; accepted is also "
            f"{_ALONE}"
        )
    return _whole("--agents", options.value("--agents"), least=1)


def _address(text: str) -> tuple[str, int]:
    try:
        host, port = split_address(text, least_port=1)
    except ValueError as error:
        raise RankError(f"{SESSION}: {error}") from error
    if not host:
        raise RankError(f"{SESSION}: {text!r}; accepted is HOST:PORT")
    return host, port


def _whole(flag: str, text: str, least: int = 0) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise RankError(f"{flag}: {text!r}; accepted is a whole number from {least} on")
    return int(text)
