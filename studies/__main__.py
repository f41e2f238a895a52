"""Run a study, and print its results next to the published figures, as Markdown tables.

Exit codes: 0 if the study ran and its checks hold, 1 if a check does not hold or the study failed,
2 for wrong usage, 130 after Ctrl-C.
"""

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

from studies.processes import StudyError
from studies.report import machine_line

NAMES = ("tpu_v2", "all_reduce_in_training", "strategies", "parameter_servers", "prediction")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study that the arguments name and return the exit code."""
    options = _parser().parse_args(arguments)
    # SIGTERM raises an exception, as Ctrl-C does, so that the child processes are ended first.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        report = options.report(options)
    except StudyError as error:
        print(f"python -m studies {options.study}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print("\n".join([machine_line(), "", *report.lines]))
    for failure in report.failures:
        print(f"python -m studies {options.study}: {failure}", file=sys.stderr)
    return 1 if report.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="study", metavar="NAME", required=True)
    for name in NAMES:
        study = importlib.import_module(f"studies.{name}")
        description = study.__doc__ or ""
        command = commands.add_parser(
            name,
            help=description.partition("\n")[0],
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        study.add_arguments(command)
        command.set_defaults(report=study.report)
    return parser


if __name__ == "__main__":
    sys.exit(main())
