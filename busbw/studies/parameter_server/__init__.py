"""`python -m busbw parameter-server`: a published table of parameter servers, its rows run here.

What is known of the table's source is here: its rows and their figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys

from busbw import driver
from busbw.commands.command import (
    CommandError,
    Commands,
    add_command,
    add_page_options,
    check_document,
    local_executor,
    names_of,
    parsed,
    starter,
    whole_number,
    write_page,
)
from busbw.model import Capability, Failure, LaunchId, Net, TrainingRequest, TrainingStrategy
from busbw.workloads.training import checked

from .page import ParameterServerRow, PublishedRow, parameter_server_page

ORDER = 5
_FRAMEWORKS = ("tensorflow", "fake")
_TIMEOUT_S = 300.0
# As long as a session of pytest waits for another one.
_WAIT_S = 1800.0

_DESCRIPTION = """
Train a small net in one process, and in groups of local processes with parameter servers, as in
a published table, and write a page of Markdown with seconds per epoch and accuracy next to the
published ones. This takes minutes.
"""


def _row(
    servers: int,
    workers: int,
    epoch: str,
    first: str,
    accuracy: str,
    *,
    strategy: TrainingStrategy | None = None,
) -> tuple[TrainingRequest, PublishedRow]:
    """A row as it can be asked for, and as it is published."""
    training = TrainingRequest(
        net=Net.PERCEPTRON,
        strategy=strategy,
        ranks=workers,
        servers=servers,
        epochs=10,
        examples=20000,
        unseen=5000,
        batch=100,
    )
    return training, PublishedRow(epoch=epoch, first=first, accuracy=accuracy)


# TF 2 has asynchronous updates through servers only; TF 1's, without a strategy, are synchronous.
_asynchronous = functools.partial(_row, strategy=TrainingStrategy.PARAMETER_SERVER)
_ROWS = {
    "single": _row(0, 1, "1.3", "-", "72 %"),
    "1ps-1worker": _asynchronous(1, 1, "3.8", "-", "72 %"),
    "1ps-2workers": _asynchronous(1, 2, "5.45", "-", "80 %"),
    "1ps-2workers-sync": _row(1, 2, "5.35", "-", "72 %"),
    "2ps-2workers": _asynchronous(2, 2, "6.6", "9, 37", "80 %"),
    "2ps-2workers-sync": _row(2, 2, "6.9", "40, 38", "72 %"),
    "1ps-3workers": _asynchronous(1, 3, "5.75, 5.85, 6.5", "12, 42, 37", "82, 83, 83 %"),
}


def add_to(commands: Commands) -> None:
    """Add this command and its options."""
    parser = add_command(
        commands,
        "parameter-server",
        run,
        help="a published table of parameter servers, next to its rows run here",
        description=_DESCRIPTION,
    )
    add = parser.add_argument
    add_page_options(parser, _FRAMEWORKS, help="fake: invented figures")
    epochs = "of each worker (default: 10)"
    add("--epochs", type=whole_number(1), default=10, metavar="N", help=epochs)
    add(
        "--rows",
        type=names_of(_ROWS),
        default=tuple(_ROWS),
        metavar="NAMES",
        help=f"a comma list of {', '.join(_ROWS)} (default: all)",
    )
    for option, default_s, what in (
        ("--timeout", _TIMEOUT_S, "for the training of a row"),
        ("--device-wait", _WAIT_S, "for another session's end on the same machine"),
    ):
        add(
            option,
            type=parsed(_seconds),
            default=default_s,
            metavar="SECONDS",
            help=f"{what} (default: {default_s:g})",
        )


def run(options: argparse.Namespace) -> int:
    """Train, write; 0 if there is a whole page. Raises CommandError."""
    check_document(options)
    try:
        with (
            driver.alone(options.device_wait, _say_waiting),
            local_executor(_say) as executor,
        ):
            rows = _trained(options, executor)
    except driver.BusyError as error:
        raise CommandError(str(error)) from error
    return write_page(parameter_server_page(rows), options)


def _say_waiting(holder: str) -> None:
    _say(f"another session is measuring on this machine; waiting for its end ({holder})")


def _say(text: str) -> None:
    print(f"busbw parameter-server: {text}", file=sys.stderr)


def _trained(options: argparse.Namespace, executor: driver.Executor) -> list[ParameterServerRow]:
    """All rows; raises CommandError for the first that has none."""
    worker = starter(options.framework, Capability.TRAIN, device="cpu")
    rows = []
    for number, name in enumerate(options.rows, start=1):
        if sys.stderr.isatty():
            _say(f"{number}/{len(options.rows)} {name}")
        training, published = _ROWS[name]
        training = dataclasses.replace(training, epochs=options.epochs)
        answers = driver.trained(executor, worker, LaunchId(name=name), training, options.timeout)
        answer = answers if isinstance(answers, Failure) else checked(training, answers)
        if isinstance(answer, Failure):
            what = f"{answer.kind.value}: {name}: {answer.message}"
            raise CommandError("\n    ".join([what, *answer.log.splitlines()]))
        rows.append(ParameterServerRow(training=training, published=published, answer=answer))
    return rows


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ValueError(f"{text!r}; accepted is a number of seconds above 0")
    return found
