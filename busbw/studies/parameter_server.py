"""`python -m busbw parameter-server`: a published table of parameter servers, its rows run here.

What is known of the table's source is here: its rows and their figures. They were measured by
others, on other hardware and with other data: only ratios to the single process are compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from busbw import commands
from busbw.driver.executor import trained
from busbw.driver.local import BusyError, alone
from busbw.model.launch import Failure, LaunchId
from busbw.model.training import Net, TrainingAnswer, TrainingRequest, TrainingStrategy
from busbw.model.words import Capability, plural
from busbw.report.renderers import rendered
from busbw.report.renderers.markdown import filled
from busbw.report.table import text_table
from busbw.session import forms
from busbw.session.option import Option
from busbw.workloads.training import checked

from . import Study, framework_option

ORDER = 5
_DESCRIPTION = """
Train a small net in one process and in groups of local processes with parameter servers, as in a
published table, and print a page of Markdown with seconds per epoch and accuracy next to the
published figures. This takes minutes.
"""
_HEAD = (
    *("row", "published: s", "first", "x single", "accuracy", "here: s", "its first"),
    *("x its single", "its accuracy", "updates/gradients"),
)


@dataclass(frozen=True)
class Row:
    """A row as it is published, in the table's words, and as it was measured.

    `epoch` is seconds after the `first` epoch, one for each worker where they differ.
    """

    training: TrainingRequest
    answer: TrainingAnswer
    epoch: str
    first: str
    accuracy: str

    @property
    def published_s(self) -> float:
        """The workers' mean."""
        return statistics.fmean(map(float, self.epoch.split(", ")))

    @property
    def later_s(self) -> Sequence[float]:
        """The epochs after the first; the first where there is no other."""
        epochs_s = self.answer.run.epochs_s
        return epochs_s[1:] or epochs_s

    @property
    def epoch_s(self) -> float:
        return statistics.median(self.later_s)


def _training(workers: int, servers: int, *, synchronous: bool = False) -> TrainingRequest:
    """TF 2 has asynchronous updates through servers only; TF 1's, without a strategy, are not."""
    return TrainingRequest(
        net=Net.PERCEPTRON,
        strategy=TrainingStrategy.PARAMETER_SERVER if servers and not synchronous else None,
        ranks=workers,
        servers=servers,
        epochs=10,
        examples=20000,
        unseen=5000,
        batch=100,
    )


# What trains, and what is published: seconds of an epoch, of the first one, accuracy.
_ROWS = {
    "single": (_training(1, 0), ("1.3", "-", "72 %")),
    "1ps-1worker": (_training(1, 1), ("3.8", "-", "72 %")),
    "1ps-2workers": (_training(2, 1), ("5.45", "-", "80 %")),
    "1ps-2workers-sync": (_training(2, 1, synchronous=True), ("5.35", "-", "72 %")),
    "2ps-2workers": (_training(2, 2), ("6.6", "9, 37", "80 %")),
    "2ps-2workers-sync": (_training(2, 2, synchronous=True), ("6.9", "40, 38", "72 %")),
    "1ps-3workers": (_training(3, 1), ("5.75, 5.85, 6.5", "12, 42, 37", "82, 83, 83 %")),
}


_OPTIONS = (
    framework_option(
        ("tensorflow", "fake"), help="Train with this framework. fake invents figures"
    ),
    Option(
        name="epochs",
        parse=forms.whole(1),
        default="10",
        metavar="N",
        help="Train each worker for N epochs",
    ),
    Option(
        name="rows",
        parse=forms.words(tuple(_ROWS)),
        metavar="NAMES",
        help=f"Run only these rows, as a comma list of {', '.join(_ROWS)} (default: all)",
    ),
    Option(
        name="timeout",
        parse=forms.seconds,
        default="300",
        metavar="SECONDS",
        help="Wait at most this long for the training of one row",
    ),
    # As long as a session of pytest waits.
    Option(
        name="device_wait",
        parse=forms.seconds,
        default="1800",
        metavar="SECONDS",
        help="Wait at most this long for another busbw session on the same machine to end",
    ),
)


def _say(text: str) -> None:
    print(f"busbw parameter-server: {text}", file=sys.stderr)


def _sums(options: argparse.Namespace) -> list[Row]:
    """All rows; raises commands.CommandError for the first that has none."""
    worker = commands.starter(options.framework, Capability.TRAIN, device="cpu")
    waiting = "another session is measuring on this machine; waiting for its end"
    rows = []
    with (
        commands.command_error(BusyError),
        alone(options.device_wait, lambda holder: _say(f"{waiting} ({holder})")),
        commands.local_executor(_say) as executor,
    ):
        names = options.rows or tuple(_ROWS)
        for number, name in enumerate(names, start=1):
            if sys.stderr.isatty():
                _say(f"{number}/{len(names)} {name}")
            asked, published = _ROWS[name]
            training = dataclasses.replace(asked, epochs=options.epochs)
            given = trained(executor, worker, LaunchId(name=name), training, options.timeout)
            answer = given if isinstance(given, Failure) else checked(training, given)
            if isinstance(answer, Failure):
                what = f"{answer.kind.value}: {name}: {answer.message}"
                raise commands.CommandError("\n    ".join([what, *answer.log.splitlines()]))
            rows.append(Row(training, answer, *published))
    return rows


def parameter_server_page(rows: Sequence[Row]) -> list[str]:
    """Lines of Markdown."""
    training, answer = rows[0].training, rows[0].answer
    versions = ", ".join(f"{name} {version}" for name, version in answer.run.versions.items())
    machine = f"{answer.processor} ({plural(answer.cores, 'core')})"
    epochs = plural(training.epochs, "epoch")
    data = f"{training.examples} examples in batches of {training.batch}, {training.unseen} unseen"
    single = next((row for row in rows if not row.training.servers), None)
    return filled(
        resources.files(__package__) / "parameter_server.md",
        machine=[f"Measured on {machine} with {versions}.", "", f"{epochs} of {data}."],
        times=rendered("markdown", text_table(_HEAD, [_cells(row, single) for row in rows])),
    )


def _cells(row: Row, single: Row | None) -> list[str]:
    run = row.answer.run
    published = here = "-"
    if single is not None:
        published = f"{row.published_s / single.published_s:.1f}"
        here = f"{row.epoch_s / single.epoch_s:.1f}"
    return [
        row.training.name,
        *(row.epoch, row.first, published, row.accuracy),
        f"{row.epoch_s:.2f} ({min(row.later_s):.2f}-{max(row.later_s):.2f})",
        *(f"{run.epochs_s[0]:.2f}", here, f"{100 * run.accuracy:.1f} %"),
        f"{run.updates}/{row.answer.gradients}",
    ]


add_to = Study(
    name="parameter-server",
    help="Run the rows of a published table of parameter servers on this machine",
    description=_DESCRIPTION,
    options=_OPTIONS,
    question=lambda options: options,
    sums=_sums,
    page=lambda options, rows: parameter_server_page(rows),
).add_to
