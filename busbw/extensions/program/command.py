"""`busbw program FILE...`: show the collectives of a program, or how two programs differ.

A program is a file of optimized HLO, or a function that a worker compiles. The command measures
nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from busbw.cli import Commands, add_command
from busbw.report.table import render
from busbw.session.command_line import read_options
from busbw.session.option import UsageError, number_type, parse_device

from .mode import collectives_of_program
from .options import is_hlo_file, parse_program_option
from .report import collective_differences, collectives_table
from .worker_values import ProgramCollectives


def add_to(commands: Commands) -> None:
    """Add the command `busbw program` and its arguments to `commands`."""
    parser = add_command(
        commands,
        "program",
        run,
        help="Show the collectives of your program, or how those of two programs differ",
        description="Show every collective of a program: payload, axes, how often a step runs it, "
        "and its source line. With two programs, show how the collectives of the second differ "
        "from those of the first; the exit code is then 1 if they differ. Measures nothing.",
        example="busbw program monday.hlo.txt tuesday.hlo.txt",
    )
    parser.add_argument(
        "programs",
        nargs="+",
        type=parse_program_option,
        metavar="PROGRAM",
        help="A file of optimized HLO, as --xla_dump_to writes it, or FILE.py:FUNCTION or "
        "MODULE:FUNCTION, which busbw compiles with JAX for the attached devices",
    )
    parser.add_argument(
        "--ranks",
        type=number_type(int, 2),
        metavar="N",
        help="Compile for N ranks, or the number of ranks of a file that does not have it",
    )
    parser.add_argument(
        "--device",
        type=parse_device,
        metavar="{auto,cpu,gpu,tpu}",
        help="Compile for this kind of device (default: auto)",
    )


def run(options: argparse.Namespace) -> int:
    if len(options.programs) > 2:
        raise UsageError(f"expected one program or two, got {len(options.programs)}")
    programs = [_read_program(source, options) for source in options.programs]
    for source, program in zip(options.programs, programs):
        print("\n".join([f"{source}:", *render("text", collectives_table(program.uses))]))
    if len(programs) == 1:
        return 0
    old, new = (program.uses for program in programs)
    changes = [change.text for change in collective_differences(old, new)]
    print("\n".join(["", *(changes or ["the collectives are the same"])]))
    return int(bool(changes))


def _read_program(source: str, options: argparse.Namespace) -> ProgramCollectives:
    """Return the collectives of the program that `source` names as ``--program`` does.

    Raises UsageError if an option is wrong, or if the program cannot be compiled or read.
    """
    # A file of HLO needs no framework: the fake framework is always installed.
    words = [f"--program={source}", f"--frameworks={'fake' if is_hlo_file(source) else 'jax'}"]
    words += [f"--ranks={options.ranks}"] if options.ranks else []
    words += [f"--device={options.device.value}"] if options.device else []
    return collectives_of_program(read_options(words, Path.cwd()), source)
