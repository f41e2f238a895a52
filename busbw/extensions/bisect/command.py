"""`busbw bisect PACKAGE --good=V --bad=V -- OPTIONS`: find the release that caused a regression.

Each release is installed into its own environment, and a session with OPTIONS decides whether the
release is good. The progress is written after every release, so that the same command continues
after an interruption.
"""

from __future__ import annotations

import argparse
import hashlib
import signal
import sys
import tempfile
from pathlib import Path

from packaging.version import Version

from busbw.cli import Subparsers, add_command, command_error, print_progress
from busbw.extensions.bisect.bisection import Bisection, BisectionProgress, releases_between
from busbw.extensions.bisect.flags import NO_EFFECT, read_flags, try_flags
from busbw.extensions.bisect.sessions import SessionRunner
from busbw.extensions.stacks.environments import StackError
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import plural
from busbw.session.option import UsageError, as_usage_error, cache_folder

PASSES_OPTIONS_ON = True
_DESCRIPTION = """
Find the first release of PACKAGE that shows the problem: slower than the good release (measured
alternately), another compiled program (with --topology), a wrong value, a crash, or out of memory.
Each release is installed into an environment of its own. OPTIONS are those of busbw run, and say
what to measure. Progress is kept, so that the same command continues after an interruption. Exit
code 0: the release was found. With --flags: no flag has an effect.
"""


def add_subcommand(commands: Subparsers) -> None:
    """Add the command `bisect` and its options to `commands`."""
    parser = add_command(
        commands,
        "bisect",
        run,
        help="Find the release that caused a regression",
        description=_DESCRIPTION,
        example="busbw bisect jaxlib --good=0.9.0 --bad=0.10.1 -- --payloads=64K,1M",
    )
    parser.usage = (
        "busbw bisect PACKAGE --good=VERSION --bad=VERSION [options] -- OPTIONS\n"
        "       busbw bisect --flags=FILE [options] -- OPTIONS"
    )
    add = parser.add_argument
    packages = "jaxlib, libtpu, tensorflow or jax-cuda13-pjrt"
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument(
        "package", nargs="?", metavar="PACKAGE", help=f"Package to bisect, such as {packages}"
    )
    subject.add_argument(
        "--flags", type=Path, metavar="FILE", help="Test each flag in FILE instead of releases"
    )
    add("--good", type=Version, metavar="VERSION", help="Release without the problem")
    add("--bad", type=Version, metavar="VERSION", help="Release with the problem")
    add(
        "--with",
        dest="pins",
        action="append",
        default=[],
        metavar="PIN",
        help="Install this package too, for example --with=jax==0.7.0. May be repeated",
    )
    add("--python", default=sys.executable, help="Create the environments with this Python")
    add(
        "--framework",
        choices=tuple(FRAMEWORKS),
        help="Measure with this framework. Default: tensorflow for packages of TensorFlow, else "
        "jax",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit code.

    The command tests flags if `options` have a file of flags (--flags), and otherwise bisects
    releases. SIGTERM and SIGHUP raise KeyboardInterrupt, so that unfinished files are removed.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup SIGHUP is ignored, and must stay ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    with command_error(StackError):
        if options.flags is not None:
            return _try_flags(options)
        return _make_bisection(options).run()


def _try_flags(options: argparse.Namespace) -> int:
    """Run a session for each flag, and print the flag's effect.

    Returns the exit code: 1 if a flag has an effect, and otherwise 0. Raises UsageError if the
    command line also names releases, or if the file of flags cannot be read. Raises StackError if
    the session without flags has no verdict.
    """
    if options.good is not None or options.bad is not None:
        raise UsageError("--flags tests flags and no releases; leave out --good and --bad")
    flags, code = read_flags(options.flags), 0
    with tempfile.TemporaryDirectory(prefix="busbw-bisect.") as baselines:
        for words in try_flags(_make_session_runner(options, Path(baselines)), flags):
            print(": ".join(filter(None, words)), flush=True)
            code |= NO_EFFECT not in words
    return code


def _make_bisection(options: argparse.Namespace) -> Bisection:
    """Return the bisection that the options of the command describe.

    Raises UsageError if an option is missing or wrong, or if the file with the progress cannot be
    read. Raises StackError if uv cannot list the releases of the package.
    """
    package, good, bad = options.package, options.good, options.bad
    if good is None or bad is None or good == bad:
        raise UsageError("expected two different releases, --good=VERSION and --bad=VERSION")
    releases = releases_between(package, min(good, bad), max(good, bad), options.python)
    # The words of the command line that determine the result. An earlier run of the same words is
    # continued.
    words = (package, *map(str, (good, bad)), *options.pins, options.python, "--", *options.passed)
    name = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    with as_usage_error(ValueError):
        folder = cache_folder() / "bisect" / name
    bisection = Bisection(
        package=package,
        releases=releases if good < bad else releases[::-1],
        is_fixed=good > bad,
        sessions=_make_session_runner(options, folder / "baselines"),
        folder=folder,
        progress=BisectionProgress(command=words),
        pinned_requirements=options.pins,
        interpreter=options.python,
    )
    bisection.sessions.baselines_folder.mkdir(parents=True, exist_ok=True)
    bisection.read_progress()
    tested = plural(len(bisection.progress.tested), "release")
    print_progress(f"{tested} tested so far; environments and progress are kept in {folder}")
    return bisection


def _make_session_runner(options: argparse.Namespace, baselines_folder: Path) -> SessionRunner:
    """Return the runner of the sessions that the options of the command describe.

    `baselines_folder` is the folder for the compiled programs of the good release.
    """
    is_tensorflow = str(options.package).startswith(("tensorflow", "keras"))
    return SessionRunner(
        framework=options.framework or ("tensorflow" if is_tensorflow else "jax"),
        options=options.passed,
        baselines_folder=baselines_folder,
        is_compiling=any(word.startswith("--topology") for word in options.passed),
    )
