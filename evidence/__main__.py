"""`python -m evidence record|replay|page|pairs|rates|kept`: record, replay and simulate.

`replay` prints what `page` writes into docs/verdict.md; `page` also writes figures.json, which a
test holds changes of a rule to. `pairs` simulates sessions of two stacks in turn and `rates` those
of a quiet device, many more than can be recorded; `kept` judges sessions of a history. What
`record` takes stands in `record`, which is imported only when it is asked for, since replaying
needs nothing that measures.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import writing
from busbw.history import HistoryError

from . import corpus, figures, kept, page, pairs, rates
from .corpus import CorpusError
from .page import PageError
from .replay import replay
from .resample import ReplayError, Scheme
from .rules import RULES
from .trials import Trials

DOCUMENT = Path(__file__).parent.parent / "docs" / "verdict.md"


def main(arguments: Sequence[str]) -> None:
    """Do what is asked; what is wrong with recordings or pages ends it with a message."""
    if arguments[:1] == ["record"]:
        importlib.import_module("evidence.record").main(arguments[1:])
        return
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        _COMMANDS[options.command](options)
    except (CorpusError, HistoryError, PageError, ReplayError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _page(options: argparse.Namespace) -> None:
    """Write the tables between the marks of a page, and the figures that a test holds."""
    text = _text(options)
    document = page.replaced(options.document.read_text(encoding="utf-8"), text)
    writing.write(options.document, document)
    scheme = replace(figures.SCHEME, baseline_sessions=options.baseline_sessions)
    found = figures.figures(corpus.read(options.corpus), scheme)
    figures.write(found, options.corpus.parent / figures.NAME)


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "replay": lambda options: print(_text(options)),
    "page": _page,
    "pairs": lambda options: _print(pairs.table(options.sessions, options.seed)),
    "rates": lambda options: _print(
        rates.rows(
            Trials(count=options.devices, processes=options.processes),
            options.seed,
            options.only or rates.NAMES,
        )
    ),
    "kept": lambda options: _print(kept.rows(kept.read(options.folder))),
}


def _text(options: argparse.Namespace) -> str:
    scheme = Scheme(
        replays=options.replays,
        launches=options.launches,
        baseline_sessions=options.baseline_sessions,
        baseline_launches=options.baseline_launches,
        seed=options.seed,
    )
    sessions = corpus.read(options.corpus)
    replays = replay(sessions, RULES, scheme=scheme)
    return page.generated(replays, sessions, rules=RULES, scheme=scheme)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record", help="record sessions of launch pairs")
    for name, text in (
        ("replay", "replay every rule on the corpus and print the tables"),
        ("page", "the same, written between the marks of a page"),
    ):
        _add_options(commands.add_parser(name, help=text))
    commands.choices["page"].add_argument(
        "--document", type=Path, default=DOCUMENT, help=f"default: docs/{DOCUMENT.name}"
    )
    simulated = commands.add_parser("pairs", help="simulate sessions of two stacks in turn")
    simulated.add_argument("--sessions", type=_positive, default=2000, help="default: 2000")
    simulated.add_argument("--seed", type=_positive, default=1, help="of the draws; default: 1")
    own = commands.add_parser("kept", help="judge sessions of a history against one another")
    own.add_argument("--folder", type=Path, default=kept.FOLDER, help="default: evidence/history")
    quiet = commands.add_parser("rates", help="simulate nights on a quiet device")
    quiet.add_argument(
        "--only", action="append", choices=rates.NAMES, help="a kind of noise; default: all"
    )
    quiet.add_argument("--devices", type=_positive, default=2500, help="of each; default: 2500")
    quiet.add_argument(
        "--processes", type=_positive, default=os.cpu_count() or 1, help="default: one a processor"
    )
    quiet.add_argument("--seed", type=_positive, default=1, help="of the draws; default: 1")
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    usual = Scheme()
    texts = {
        "replays": "draws for the unchanged sessions, and for each slowdown",
        "baseline_sessions": "sessions in a stored baseline",
        "baseline_launches": "launches from each of them",
        "seed": "of the draws",
    }
    parser.add_argument("--corpus", type=Path, default=corpus.FOLDER, help="a folder")
    parser.add_argument("--launches", type=_positive, help="of now; default: as recorded")
    for name, text in texts.items():
        default = getattr(usual, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=_positive,
            default=default,
            help=f"{text}; default: {default}",
        )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


if __name__ == "__main__":
    main(sys.argv[1:])
