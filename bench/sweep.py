"""Measure where the wall time of a session goes."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .processes import run_session

SWEEPS = ((), ("--launches=1", "--payloads=1K:64M"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(lines=lines)


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of each sweep, as Markdown."""
    for words in SWEEPS:
        with tempfile.TemporaryDirectory() as folder:
            yield from phase_table(words, run_session(Path(folder), "sweep", *words))


def phase_table(words: tuple[str, ...], results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table with the time of each phase of a session.

    `words` are the options of the session, for the heading.
    """
    yield from ("", f"### `{' '.join(('pytest perf/', *words))}`", "")
    yield f"{len(results['cases'])} cases, {results['plan']['launches']} launches: measured in "
    yield f"{results['measuring_s']:.0f} s, {results['wall_s']:.0f} s in all."
    yield from ("", "| phase | s | share |", "|---|---|---|")
    for phase, seconds in phase_seconds(results).items():
        yield f"| {phase} | {seconds:.1f} | {100 * seconds / results['wall_s']:.0f} % |"


def phase_seconds(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds that a session spent in each phase, in its workers and outside them."""
    workers = Counter[str]()
    for case in results["cases"]:
        for launch in case["launches"]:
            workers.update(launch["phases_s"])
    spent, measuring_s = Counter(results["spent_s"]), results["measuring_s"]
    return {
        **{name.replace("_", " "): seconds for name, seconds in workers.items()},
        "starting workers": spent["starting"],
        "ending workers": spent["ending"],
        "releasing memory, channel": spent["measuring"] - workers.total(),
        "the driver, between requests": measuring_s - spent.total(),
        "before and after (collection, probes, report)": results["wall_s"] - measuring_s,
    }
