"""Replay rules on recorded sessions, judge kept ones, simulate quiet devices.

`replay` prints the tables that `page` writes into docs/verdict.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from busbw import files
from busbw.history.files import HistoryError

from . import agreement, corpus, kept, page, regimes
from .corpus import CorpusError
from .page import PageError
from .replay import ReplayError, replay
from .rules import OTHERS, OWN

DOCUMENT = Path(__file__).parent.parent / "docs" / "verdict.md"


def main(arguments: Sequence[str]) -> None:
    """Do what is asked; what is wrong with recordings or pages ends it with a message."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        for line in _COMMANDS[options.command](options):
            print(line, flush=True)
    except (CorpusError, HistoryError, PageError, ReplayError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def _replay(options: argparse.Namespace) -> Iterator[str]:
    sessions = corpus.read(options.corpus)
    found = replay(sessions, {**OWN, **OTHERS}, options.replays, options.baseline_sessions)
    yield from page.generated(found, sessions)


def _page(options: argparse.Namespace) -> Iterator[str]:
    text = page.replaced(options.document.read_text(encoding="utf-8"), _replay(options))
    files.write(options.document, text)
    yield from ()


def _rates(options: argparse.Namespace) -> Iterator[str]:
    return regimes.rows(options.devices, options.seed, options.only)


def _agreement(options: argparse.Namespace) -> Iterator[str]:
    return agreement.rows(options.devices, options.sessions, options.seed)


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], Iterable[str]]] = {
    "replay": _replay,
    "page": _page,
    "rates": _rates,
    "agreement": _agreement,
    "kept": lambda options: kept.rows(kept.read(options.folder)),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("replay", "replay every rule on the corpus and print the tables"),
        ("page", "the same, written between the marks of a page"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--corpus", type=Path, default=corpus.FOLDER, help="a folder")
        _add_counts(command, {"replays": 2000, "baseline-sessions": 6})
    commands.choices["page"].add_argument("--document", type=Path, default=DOCUMENT)
    quiet = commands.add_parser("rates", help="simulate sessions on devices of one's own")
    quiet.add_argument("--only", action="append", default=[], help="a part of a row's name")
    _add_counts(quiet, {"devices": 1000, "seed": 1})
    both = commands.add_parser("agreement", help="judge sessions by the product and batched")
    _add_counts(both, {"devices": 5, "sessions": 24, "seed": 1})
    own = commands.add_parser("kept", help="judge sessions of a history against one another")
    own.add_argument("--folder", type=Path, default=kept.FOLDER, help="default: evidence/history")
    return parser


def _add_counts(parser: argparse.ArgumentParser, counts: Mapping[str, int]) -> None:
    for name, usual in counts.items():
        parser.add_argument(f"--{name}", type=_positive, default=usual, help=f"default: {usual}")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


if __name__ == "__main__":
    main(sys.argv[1:])
