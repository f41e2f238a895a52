"""`busbw run [OPTIONS]`: run pytest with the plugins of busbw.

The tests that busbw ships are run, unless the user names other tests. pytest replaces this process,
so that the terminal, the signals and the exit code are those of pytest.
"""

from __future__ import annotations

import argparse
import os
import sys

from . import Subparsers

# -B, so that Python writes no compiled files next to installed files.
_PYTEST_ARGUMENTS = ("-B", "-m", "pytest", "-p", "busbw.plugin", "-p", "busbw.plugin.shipped_tests")
_DESCRIPTION = """\
Measure all-reduce, compare it with baselines (accepted times), and fail if it became slower. This
is pytest with busbw's tests: the options of busbw come first below, then those of pytest, which
work too.

  busbw run                                     measure everything that is installed
  busbw run --payloads=1K:4M --launches=2       measure small payloads, in a minute
  busbw run --update-baselines                  accept the times of today
  busbw run --against=~/last-week/bin/python    compare two environments
"""


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `run` to `commands`. The subcommand passes all arguments on to pytest."""
    parser = commands.add_parser(
        "run",
        help="Measure all-reduce, compare with baselines, and fail if it became slower",
        usage="busbw run [OPTIONS] [TESTS]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # No argument begins with this character, so argparse takes no argument for its own option.
        prefix_chars="\0",
        add_help=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Replace this process by pytest, with the arguments of the command. Never returns."""
    if {"-h", "--help"} & set(options.options):
        print(_DESCRIPTION, flush=True)
    os.execv(sys.executable, [sys.executable, *_PYTEST_ARGUMENTS, *options.options])
