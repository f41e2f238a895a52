"""`python -m busbw parameter-server`: a published table of parameter servers, its rows run here.

What is known of the table's source stands here: its rows and their figures. The words of the page
are those of `report`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from dataclasses import dataclass

from busbw import driver, report
from busbw.frameworks import FRAMEWORKS
from busbw.model import (
    Capability,
    Failure,
    LaunchId,
    Net,
    TrainingRequest,
    TrainingStrategy,
)
from busbw.report import ParameterServerRow, PublishedRow
from busbw.workloads.training_answers import checked

from . import pages

_FRAMEWORKS = ("tensorflow", "fake")
_TIMEOUT_S = 300.0
# As long as a session of pytest waits for another one.
_WAIT_S = 1800.0

_DESCRIPTION = """
Train a small net in one process, and in groups of local processes with parameter servers, as a
published table has them; set seconds per epoch and accuracy beside the published ones, as a page
of Markdown. It takes minutes.
"""


@dataclass(frozen=True)
class _Row:
    """A row as it can be asked for."""

    training: TrainingRequest
    published: PublishedRow


def _row(
    servers: int,
    workers: int,
    epoch: str,
    first: str,
    accuracy: str,
    *,
    strategy: TrainingStrategy | None = None,
) -> _Row:
    """`epoch` as published, in seconds; where there is one for each worker, their mean counts."""
    times = [float(one) for one in epoch.split(", ")]
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
    return _Row(
        training,
        PublishedRow(epoch_s=sum(times) / len(times), epoch=epoch, first=first, accuracy=accuracy),
    )


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


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command and its options."""
    parser = commands.add_parser(
        "parameter-server",
        help="a published table of parameter servers, beside its rows run here",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    add = parser.add_argument
    pages.add_document(parser)
    add("--epochs", type=_epochs, default=10, metavar="N", help="of each worker (default: 10)")
    add(
        "--rows",
        type=_rows,
        default=tuple(_ROWS),
        metavar="NAMES",
        help=f"a comma list of {', '.join(_ROWS)} (default: all)",
    )
    add(
        "--timeout",
        type=_seconds,
        default=_TIMEOUT_S,
        metavar="SECONDS",
        help=f"for the training of a row (default: {_TIMEOUT_S:g})",
    )
    add(
        "--device-wait",
        type=_seconds,
        default=_WAIT_S,
        metavar="SECONDS",
        help=f"for another session's end on the same machine (default: {_WAIT_S:g})",
    )
    add(
        "--framework",
        choices=_FRAMEWORKS,
        default="tensorflow",
        help="fake: made-up figures, to try the command (default: tensorflow)",
    )


def run(options: argparse.Namespace) -> int:
    """Train, write; 0 if there is a whole page, 2 for a file that it must not become."""
    try:
        pages.check_page(options.document, "parameter-server")
    except pages.Unwritable as error:
        print(f"busbw parameter-server: {error}", file=sys.stderr)
        return 2
    try:
        with driver.alone(options.device_wait, _say_waiting):
            rows = _trained_alone(options)
    except driver.BusyError as error:
        print(f"busbw parameter-server: {error}", file=sys.stderr)
        return 1
    if isinstance(rows, Failure):
        print(f"busbw parameter-server: {rows.kind.value}: {rows.message}", file=sys.stderr)
        for line in rows.log.splitlines():
            print(f"    {line}", file=sys.stderr)
        return 1
    return pages.put(report.parameter_server_page(rows), options.document, "parameter-server")


def _say_waiting(holder: str) -> None:
    _say(f"another session is measuring on this machine; waiting for its end ({holder})")


def _say(text: str) -> None:
    print(f"busbw parameter-server: {text}", file=sys.stderr)


def _trained_alone(options: argparse.Namespace) -> list[ParameterServerRow] | Failure:
    bundle = driver.Bundle()
    try:
        return _trained(options, bundle)
    finally:
        bundle.remove()


def _trained(
    options: argparse.Namespace, bundle: driver.Bundle
) -> list[ParameterServerRow] | Failure:
    """All rows, or the Failure of the first that has one, named by the row."""
    starter = driver.Starter(
        python=sys.executable,
        framework=options.framework,
        capability=Capability.TRAIN,
        defaults=FRAMEWORKS[options.framework].environment,
        device="cpu",
    )
    executor = driver.Executor(driver.LocalTransport(bundle), _say)
    rows = []
    for number, name in enumerate(options.rows, start=1):
        if sys.stderr.isatty():
            print(f"busbw parameter-server: {number}/{len(options.rows)} {name}", file=sys.stderr)
        row = _ROWS[name]
        training = dataclasses.replace(row.training, epochs=options.epochs)
        answers = driver.trained(executor, starter, LaunchId(name=name), training, options.timeout)
        answer = answers if isinstance(answers, Failure) else checked(training, answers)
        if isinstance(answer, Failure):
            return dataclasses.replace(answer, message=f"{name}: {answer.message}")
        rows.append(ParameterServerRow(training=training, published=row.published, answer=answer))
    return rows


def _rows(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in _ROWS:
            raise argparse.ArgumentTypeError(f"{name!r}; accepted are {', '.join(_ROWS)}")
    return names


def _epochs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted is a whole number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted is a number of seconds above 0")
    return found
