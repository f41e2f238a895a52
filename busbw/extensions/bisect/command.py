"""`busbw bisect PACKAGE --good=V --bad=V -- OPTIONS`: find the release that caused a regression.

Each release is an environment of its own; what a step shows is decided by a session with OPTIONS.
What is known is kept after every step, so that the same command goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from busbw.commands import Commands, UsageError, add_command, command_error, usage_error
from busbw.extensions.bisect.flags import FlagsError, flags_in, tried
from busbw.extensions.bisect.releases import Environments, ReleaseError, releases_between
from busbw.extensions.bisect.row import Row
from busbw.extensions.bisect.state import Kept, State, StateError
from busbw.extensions.bisect.steps import Sessions, StepError
from busbw.extensions.stacks.uv import StackError
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import plural
from busbw.session import forms
from busbw.session.folders import stack_cache_of
from busbw.session.option import Option, file_option, folder_option, takes

ORDER, PASSES_ON = 1, True
_DESCRIPTION = """
Find the first release of PACKAGE that shows the problem: slower than the good release (measured
alternately), another compiled program (with --topology), a wrong value, a crash, or out of memory.
Each release is installed into an environment of its own. OPTIONS are those of busbw run, and say
what to measure. Progress is kept, so that the same command continues after an interruption. Exit
code 0: the release was found.
"""

_OPTIONS = (
    Option(
        name="package",
        nargs="*",
        metavar="PACKAGE",
        help="The package whose releases to try, such as jaxlib, libtpu, tensorflow or "
        "jax-cuda13-pjrt",
    ),
    Option(name="good", **takes("VERSION"), help="A release that works as it should"),
    Option(name="bad", **takes("VERSION"), help="A release that does not"),
    file_option(
        "flags",
        "Instead of releases: report what each flag in FILE changes. FILE has one flag per line",
    ),
    Option(
        name="fixed",
        flag=True,
        help="Find the release that fixed the problem: --good is later than --bad",
    ),
    Option(name="every", flag=True, help="Try all releases between the two, and report each"),
    Option(name="pre", flag=True, help="Try release candidates too"),
    Option(
        name="with",
        **takes("PIN"),
        repeated=True,
        help="Install this package too, for example --with=jax==0.7.0. May be repeated",
    ),
    Option(
        name="python",
        **takes("PYTHON", default=sys.executable),
        help="Create the environments with this Python",
    ),
    Option(
        name="framework",
        parse=forms.word(tuple(FRAMEWORKS)),
        choices=tuple(FRAMEWORKS),
        help="Measure with this framework. Default: tensorflow for packages of TensorFlow, else "
        "jax",
    ),
    folder_option(
        "stack_cache", "Keep the environments in DIR. Default: busbw in the user's cache folder"
    ),
    file_option(
        "state",
        "Keep the progress in FILE. Default: a file in the cache, named by the command line",
    ),
    file_option("log", "Append the output of all sessions to FILE"),
)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "bisect",
        run,
        *_OPTIONS,
        help="Find the release that caused a regression",
        description=_DESCRIPTION,
        example="busbw bisect jaxlib --good=0.9.0 --bad=0.10.1 -- --payloads=64K,1M",
    ).usage = "busbw bisect PACKAGE --good=VERSION --bad=VERSION [options] -- OPTIONS"


def run(options: argparse.Namespace) -> int:
    usage = usage_error(StateError, ReleaseError, FlagsError)
    with _tidied(), usage, command_error(StackError, StepError):
        if options.flags is not None:
            return _flags(options)
        row = _row(options)
        try:
            return row.answer()
        finally:
            with contextlib.suppress(OSError):  # A terminal that hung up is read by nobody.
                _say(row.environments.left(row.releases))


@contextlib.contextmanager
def _tidied() -> Iterator[None]:
    """End by an exception at SIGTERM and SIGHUP, so that unfinished work is removed."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    # Under nohup SIGHUP is ignored, and must stay so.
    handled = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _flags(options: argparse.Namespace) -> int:
    """What each flag does; exit code 1 where one changes something, or is refused."""
    if options.package or options.good or options.bad:
        raise UsageError("--flags: accepted is it alone, or PACKAGE with --good and --bad")
    flags = flags_in(options.flags)
    with tempfile.TemporaryDirectory(prefix="busbw-bisect.") as baselines:
        sessions = Sessions(
            framework=options.framework or "jax",
            options=options.passed,
            baselines=Path(baselines),
            is_compiled=_is_compiled(options.passed),
            log=_log(options.log),
        )
        found = []
        for one in tried(sessions, flags):
            print(f"{one.text}: {one.does}{': ' if one.how else ''}{one.how}", flush=True)
            found.append(one)
    each = found[1:] if len(flags) > 1 else found
    counts = Counter(one.does for one in each)
    print(
        f"of {plural(len(each), 'flag')} " + ", ".join(f"{n} {does}" for does, n in counts.items())
    )
    return int(any(one.does != "nothing" for one in each))


def _is_compiled(words: Sequence[str]) -> bool:
    return any(word.startswith("--topology") for word in words)


def _row(options: argparse.Namespace) -> Row:
    """Raises ReleaseError, StateError and StackError."""
    if len(options.package) != 1 or not (options.good and options.bad):
        raise UsageError(
            "accepted is one PACKAGE, such as jaxlib, with --good and --bad, or --flags=FILE; "
            "and after -- OPTIONS"
        )
    (package,) = options.package
    first, last = options.good, options.bad
    if options.fixed:
        first, last = last, first
    releases = releases_between(package, first, last, options.python, pre=options.pre)
    with usage_error(ValueError):
        cache = stack_cache_of(options.stack_cache)
    state = _state(options, (package, first, last), cache)
    return Row(
        package=package,
        releases=releases,
        fixed=options.fixed,
        every=options.every,
        sessions=Sessions(
            framework=options.framework or _framework_of(package),
            options=options.passed,
            baselines=state.baselines,
            is_compiled=_is_compiled(options.passed),
            log=_log(options.log),
            launches=state.known.launches,
        ),
        state=state,
        environments=Environments(
            cache=cache,
            package=package,
            pins=getattr(options, "with") or (),
            python=options.python,
        ),
        say=_say,
        tell=print,
    )


def _state(options: argparse.Namespace, ends: tuple[str, ...], cache: Path) -> State:
    """Of all that was asked, as far as an earlier one came. Raises StateError."""
    asked = (*ends, *(getattr(options, "with") or ()), options.python)
    asked = (*asked, *[flag for flag in ("fixed", "every", "pre") if getattr(options, flag)])
    asked = (*asked, "--", *options.passed)
    name = hashlib.sha256("\0".join(asked).encode()).hexdigest()[:16]
    path = options.state or cache / "bisect" / f"{name}.json"
    state = State(path=path, known=Kept(asked=asked))
    state.baselines.mkdir(parents=True, exist_ok=True)
    state.read()
    if state.known.tried:
        _say(f"goes on with {plural(len(state.known.tried), 'step')} of {state.path}")
    return state


def _framework_of(package: str) -> str:
    return "tensorflow" if package.startswith(("tensorflow", "keras")) else "jax"


def _log(path: Path | None) -> Callable[[str], None]:
    def log(text: str) -> None:
        if path is not None:
            with path.open("a") as file:
                file.write(text)

    return log


def _say(words: str) -> None:
    print(f"busbw: {words}", file=sys.stderr, flush=True)
