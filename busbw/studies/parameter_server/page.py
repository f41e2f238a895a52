"""Training with parameter servers next to a published table: the page's tables and words.

The published figures were measured by others, on other hardware and with other data: every table
says which is which, and only ratios to the single process are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from busbw.model import (
    PERCEPTRON_SHAPES,
    TrainingAnswer,
    TrainingRequest,
    TrainingRun,
    Updates,
    plural,
    seconds_text,
)
from busbw.report import Column, Table, filled, item, rendered, rows_of, text_table

_TEXT = resources.files(__package__) / "page.md"
_SECONDS = "{:.2f}".format
# Servers, workers, updates.
_SINGLE = (0, 1, Updates.SINGLE)
_INSTEAD = "Synchronous instead of asynchronous"


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A row of the published table in its words: seconds after the `first` epoch, and accuracy.

    Where workers differ there is one for each in `epoch`.
    """

    epoch: str
    first: str
    accuracy: str

    @property
    def epoch_s(self) -> float:
        """The workers' mean."""
        return statistics.fmean(map(float, self.epoch.split(", ")))


@dataclass(frozen=True, kw_only=True)
class ParameterServerRow:
    """A row as it is published and as it was measured."""

    training: TrainingRequest
    published: PublishedRow
    answer: TrainingAnswer

    @property
    def run(self) -> TrainingRun:
        """What training gave."""
        return self.answer.run

    @property
    def epoch_s(self) -> float:
        """The median epoch after the first; the first where there is no other."""
        return statistics.median(self.run.epochs_s[1:] or self.run.epochs_s)


def parameter_server_page(rows: Sequence[ParameterServerRow]) -> list[str]:
    """The whole page."""
    training, answer = rows[0].training, rows[0].answer
    versions = ", ".join(f"{name} {version}" for name, version in answer.run.versions.items())
    machine = f"{answer.processor} ({plural(answer.cores, 'core')})"
    return filled(
        _TEXT,
        machine=[f"Measured on {machine} with {versions}."],
        summary=_summary(rows),
        times=rendered("markdown", _times(rows)),
        changed=rendered("markdown", _changed(rows[0])),
        examples=[str(training.examples)],
        unseen=[str(training.unseen)],
        updates=rendered("markdown", _updates(rows)),
    )


def _times(rows: Sequence[ParameterServerRow]) -> Table:
    single = _shaped(rows, _SINGLE)
    return Table(
        columns=(
            Column("row", "row"),
            Column("published_s", "published: s"),
            Column("published_first_s", "first"),
            Column("published_ratio", "x single", text="{:.1f}".format),
            Column("published_accuracy", "accuracy"),
            Column("epoch_s", "here: s", text=_SECONDS),
            Column("least_s", "least", text=_SECONDS),
            Column("most_s", "most", text=_SECONDS),
            Column("first_s", "first", text=_SECONDS),
            Column("ratio", "x single", text="{:.1f}".format),
            Column("accuracy", "accuracy", text=_percent),
        ),
        rows=rows_of(_time(row, single) for row in rows),
        missing="-",
    )


def _time(row: ParameterServerRow, single: ParameterServerRow | None) -> dict[str, object]:
    later_s = row.run.epochs_s[1:] or row.run.epochs_s
    published = row.published
    return {
        "row": row.training.name,
        "published_s": published.epoch,
        "published_first_s": published.first,
        "published_ratio": published.epoch_s / single.published.epoch_s if single else None,
        "published_accuracy": published.accuracy,
        "epoch_s": row.epoch_s,
        "least_s": min(later_s),
        "most_s": max(later_s),
        "first_s": row.run.epochs_s[0],
        "ratio": row.epoch_s / single.epoch_s if single else None,
        "accuracy": row.run.accuracy,
    }


def _updates(rows: Sequence[ParameterServerRow]) -> Table:
    return text_table(
        ["row", "gradients", "updates", "global step", "bytes on servers", "API"],
        [
            [
                row.training.name,
                str(row.answer.gradients),
                str(row.run.updates),
                str(row.answer.global_step),
                " + ".join(map(str, row.answer.server_bytes.values())) or "-",
                row.run.api,
            ]
            for row in rows
        ],
    )


def _changed(row: ParameterServerRow) -> Table:
    training, answer, run = row.training, row.answer, row.run
    inputs, hidden = PERCEPTRON_SHAPES["hidden_weights"]
    outputs = PERCEPTRON_SHAPES["weights"][1]
    processor = f"{answer.processor}, {plural(answer.cores, 'core')}"
    return text_table(
        ["", "published", "here"],
        [
            ("hardware", "GTX 1080, two hosts", processor),
            ("TensorFlow", "1.2.1, GPU", f"{run.versions.get('tensorflow', 'none')}, CPU"),
            ("data", "MNIST", "digits drawn by busbw"),
            ("net", "two dense layers", f"{inputs} x {hidden} x {outputs}, ReLU"),
            ("batch", "100", str(training.batch)),
            ("batches of an epoch", "6 (see below)", str(run.steps)),
            ("epochs of each worker", "100", str(training.epochs)),
            ("asynchronous", "between-graph replication", "ParameterServerStrategy"),
            ("1 ps, 3 workers", "on two hosts", "on one host"),
        ],
    )


def _summary(rows: Sequence[ParameterServerRow]) -> list[str]:
    """What follows from the figures of the rows that were run."""
    asynchronous, synchronous = Updates.ASYNCHRONOUS, Updates.SYNCHRONOUS
    lines = []
    for what, later, before in (
        ("A server and a worker instead of one process", (1, 1, asynchronous), _SINGLE),
        ("A second asynchronous worker", (1, 2, asynchronous), (1, 1, asynchronous)),
        ("A third asynchronous worker", (1, 3, asynchronous), (1, 2, asynchronous)),
        ("A second server, asynchronous", (2, 2, asynchronous), (1, 2, asynchronous)),
        ("A second server, synchronous", (2, 2, synchronous), (1, 2, synchronous)),
        (f"{_INSTEAD}, 1 ps, 2 workers", (1, 2, synchronous), (1, 2, asynchronous)),
        (f"{_INSTEAD}, 2 ps, 2 workers", (2, 2, synchronous), (2, 2, asynchronous)),
    ):
        lines += _ratio(what, _shaped(rows, later), _shaped(rows, before))
    return [*lines, *_accuracies(rows)]


def _ratio(
    what: str, later: ParameterServerRow | None, before: ParameterServerRow | None
) -> list[str]:
    if later is None or before is None:
        return []
    published = later.published.epoch_s / before.published.epoch_s
    here = later.epoch_s / before.epoch_s
    times = f"{seconds_text(before.epoch_s)} to {seconds_text(later.epoch_s)}"
    text = f"{what}: an epoch takes {here:.2f} times as long ({times}); published {published:.2f}."
    return item(text)


def _accuracies(rows: Sequence[ParameterServerRow]) -> list[str]:
    found = []
    for updates in Updates:
        shares = sorted(row.run.accuracy for row in rows if row.training.updates is updates)
        ends = dict.fromkeys(map(_percent, (*shares[:1], *shares[-1:])))
        found += [f"{updates.value} {' to '.join(ends)}"] if ends else []
    text = (
        f"Accuracy at the end: {'; '.join(found)}. Published: single 72 %; asynchronous 72 % "
        "with one worker, 80 % with two, 82 to 83 % with three; synchronous 72 %."
    )
    return item(text)


def _shaped(
    rows: Sequence[ParameterServerRow], shape: tuple[int, int, Updates]
) -> ParameterServerRow | None:
    """The row with these numbers of servers and workers."""
    asked = ((row, row.training) for row in rows)
    return next((row for row, of in asked if (of.servers, of.ranks, of.updates) == shape), None)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
