"""Training with parameter servers beside a published table: the page's tables and words.

What was published was measured by others, on other hardware and with other data: every table
says which is which, and only ratios to the single process are compared.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import (
    PERCEPTRON_SHAPES,
    TrainingAnswer,
    TrainingRequest,
    TrainingRun,
    Updates,
    plural,
    seconds_text,
)

from .markdown import markdown_table

_WIDTH = 100
_COMMAND = "python -m busbw parameter-server --document docs/parameter-server.md"

_LEDE = """
A table made with TensorFlow 1.2.1 says what an epoch takes with parameter servers: one process,
then one or two servers and up to three workers, with asynchronous and with synchronous updates.
This page repeats its rows with real processes, all of them on one machine, and sets them beside
it.
"""

_CHANGED = """
Seconds cannot be compared. How many times as long as in a single process can, with care: a GPU that
waits for a server is not a core that is shared with one.
"""

_DIFFERENCES = """
The published page names six batches an epoch, which would be 0.2 s for a batch in a single process;
how many there really were is not known. Its two layers' widths are not named either.

**Data.** TensorFlow comes with no data set, and nothing is downloaded when the rows are run. So
every process that trains draws the same digits: the strokes of a seven-segment display, moved,
scaled, slanted and bent, with noise and a stray stroke, 28 x 28 pixels, {examples} to train on and
{unseen} others for the accuracy. They are like MNIST's in form, not in difficulty: accuracies are
compared between rows, never with the published ones.

**An epoch** is one pass of *every* worker over all examples, as published: two workers compute
twice as many gradients as one. At its end, asynchronous workers wait for each other here. The first
epoch holds tracing, copying the data to the workers, and waiting until all are there.
"""

_PROOF = """
TF 2's ParameterServerStrategy with a coordinator is asynchronous only. Synchronous rows take TF 1's
route, through `tf.compat.v1`. That each of their steps is one aggregated update is proved by the
variables: one of them has a gradient of exactly -1 from every worker, so that its value, divided by
the learning rate, is the number of updates that it really saw. It must be the global step; there
must be a gradient for each worker and update (synchronous), or for each update (asynchronous). A
row of which that is not true is an error, and there is no page. The optimizer counts gradients, not
who handed them in: a fast worker may stand in for a slow one. Variables are handed out to the
servers in turn, as published, so that nearly all bytes are on the first one.
"""


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A row of the published table: `epoch_s` on average after the first, `first` in words."""

    epoch_s: float
    epoch: str
    first: str
    accuracy: str


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
    return [
        "# Parameter servers: a published table, and its rows here",
        "",
        f"<!-- Written by `{_COMMAND}`, not by hand. -->",
        "",
        _machine(rows[0].answer),
        *_LEDE.splitlines(),
        "",
        "## In short",
        "",
        *_summary(rows),
        "",
        "## Seconds per epoch and accuracy",
        "",
        "Published seconds are averages after the first epoch, one for each worker where they",
        "differ; those here are medians after the first epoch, with the least and the most, of one",
        "training each. Nothing keeps other work off the machine meanwhile.",
        "",
        *_times(rows),
        "",
        "## What changed",
        *_changed(rows[0]),
        "",
        "## Which API, and what was updated",
        *_PROOF.splitlines(),
        "",
        *_updates(rows),
    ]


def _machine(answer: TrainingAnswer) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in answer.run.versions.items())
    return f"Measured on {answer.processor} ({plural(answer.cores, 'core')}) with {versions}."


def _times(rows: Sequence[ParameterServerRow]) -> list[str]:
    single = _of(rows, Updates.SINGLE)
    head = ["row", "published: s", "first", "x single", "accuracy"]
    head += ["here: s", "least", "most", "first", "x single", "accuracy"]
    return markdown_table(head, [_time(row, single) for row in rows])


def _time(row: ParameterServerRow, single: ParameterServerRow | None) -> list[str]:
    later_s = row.run.epochs_s[1:] or row.run.epochs_s
    published = row.published
    return [
        row.training.name,
        published.epoch,
        published.first,
        f"{published.epoch_s / single.published.epoch_s:.1f}" if single else "-",
        published.accuracy,
        *(f"{one:.2f}" for one in (row.epoch_s, min(later_s), max(later_s), row.run.epochs_s[0])),
        f"{row.epoch_s / single.epoch_s:.1f}" if single else "-",
        _percent(row.run.accuracy),
    ]


def _updates(rows: Sequence[ParameterServerRow]) -> list[str]:
    head = ["row", "gradients", "updates", "global step", "bytes on servers", "API"]
    return markdown_table(
        head,
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


def _changed(row: ParameterServerRow) -> list[str]:
    training, answer, run = row.training, row.answer, row.run
    inputs, hidden = PERCEPTRON_SHAPES["hidden_weights"]
    outputs = PERCEPTRON_SHAPES["weights"][1]
    processor = f"{answer.processor}, {plural(answer.cores, 'core')}"
    table = markdown_table(
        ["", "published", "here"],
        [
            ["hardware", "GTX 1080, two hosts", processor],
            ["TensorFlow", "1.2.1, GPU", f"{run.versions.get('tensorflow', 'none')}, CPU"],
            ["data", "MNIST", "digits drawn by busbw"],
            ["net", "two dense layers", f"{inputs} x {hidden} x {outputs}, ReLU"],
            ["batch", "100", str(training.batch)],
            ["batches of an epoch", "6 (see below)", str(run.steps)],
            ["epochs of each worker", "100", str(training.epochs)],
            ["asynchronous", "between-graph replication", "ParameterServerStrategy"],
            ["1 ps, 3 workers", "on two hosts", "on one host"],
        ],
    )
    words = _DIFFERENCES.format(examples=training.examples, unseen=training.unseen)
    return [*_CHANGED.splitlines(), "", *table, *words.splitlines()]


def _summary(rows: Sequence[ParameterServerRow]) -> list[str]:
    """What follows from the figures, as far as the rows are there."""
    lines = []
    for what, later, before in (
        ("A server and a worker instead of one process", (1, 1), (0, 1)),
        ("A second asynchronous worker", (1, 2), (1, 1)),
        ("A third asynchronous worker", (1, 3), (1, 2)),
        ("A second server, asynchronous", (2, 2), (1, 2)),
    ):
        lines += _ratio(what, _shaped(rows, later), _shaped(rows, before))
    synchronous = Updates.SYNCHRONOUS
    lines += _ratio(
        "A second server, synchronous",
        _shaped(rows, (2, 2), synchronous),
        _shaped(rows, (1, 2), synchronous),
    )
    for servers in (1, 2):
        lines += _ratio(
            f"Synchronous instead of asynchronous, {servers} ps, 2 workers",
            _shaped(rows, (servers, 2), synchronous),
            _shaped(rows, (servers, 2)),
        )
    return [*lines, *_accuracies(rows)]


def _ratio(
    what: str, later: ParameterServerRow | None, before: ParameterServerRow | None
) -> list[str]:
    if later is None or before is None:
        return []
    published = later.published.epoch_s / before.published.epoch_s
    here = later.epoch_s / before.epoch_s
    times = f"{seconds_text(before.epoch_s)} to {seconds_text(later.epoch_s)}"
    text = (
        f"- {what}: an epoch takes {here:.2f} times as long ({times}); published {published:.2f}."
    )
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _accuracies(rows: Sequence[ParameterServerRow]) -> list[str]:
    found = []
    for updates in Updates:
        shares = sorted(row.run.accuracy for row in rows if row.training.updates is updates)
        ends = dict.fromkeys(map(_percent, (*shares[:1], *shares[-1:])))
        found += [f"{updates.value} {' to '.join(ends)}"] if ends else []
    text = (
        f"- Accuracy at the end: {'; '.join(found)}. Published: single 72 %; asynchronous 72 % "
        "with one worker, 80 % with two, 82 to 83 % with three; synchronous 72 %."
    )
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _shaped(
    rows: Sequence[ParameterServerRow],
    shape: tuple[int, int],
    updates: Updates = Updates.ASYNCHRONOUS,
) -> ParameterServerRow | None:
    """The row with so many servers and workers."""
    if not shape[0]:
        return _of(rows, Updates.SINGLE)
    for row in rows:
        asked = row.training
        if (asked.servers, asked.ranks, asked.updates) == (*shape, updates):
            return row
    return None


def _of(rows: Sequence[ParameterServerRow], updates: Updates) -> ParameterServerRow | None:
    return next((row for row in rows if row.training.updates is updates), None)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
