"""What a session found as Markdown for the page of a workflow run: verdict, changes, all cases.

    summarize.py RESULTS [HISTORY]    files of --results and of `busbw history DIR --json`

Standard library only and nothing of busbw: it must still speak when busbw could not be installed.
Whatever names and texts hold is shown as text: no markup of theirs has an effect.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_COMPILED_HEAD = """\
| topology | payload | compiler | outcome | what |
|---|---:|---|---|---|"""

_HEAD = """\
| case | payload | busbw GB/s | baseline GB/s | ratio | outcome |
|---|---:|---:|---:|---:|---|"""

_CHANGE_HEAD = """\
| since | what | change | sessions | what changed there | accepted |
|---|---|---:|---:|---|---|"""

# Before the newest session; and how many rows there are at most.
_CHANGE_DAYS = 60
_MOST_CHANGES = 50

# What differs from the baseline. Of a case that failed by another outcome it is said, too.
_CHANGED = ("FAILED", "REGRESSED", "CHANGED", "COMPILE_ERROR", "OUT_OF_MEMORY", "IMPROVED")


def summary(document: dict[str, Any]) -> str:
    """The session's verdict, a row for each case that changed, and all of them folded away."""
    environment, session = document["environment"], document["session"]
    key, cases = environment["key"], document["cases"]
    failed = sum(case["failed"] for case in cases)
    return "\n".join(
        [
            f"## All-reduce on {_cell(key['device_kind'])}, {_cell(key['ranks'])} ranks",
            "",
            f"{_verdict(session, failed)}. {_failed(session, failed, len(cases))}"
            "The ratio is time now over time of the baseline, or of the reference measured in "
            "turn: above 1 is slower.",
            "",
            *_answers(session),
            *_changed_cases(cases),
            *_folded(f"All {len(cases)} cases", _HEAD, map(_row, sorted(cases, key=_rank))),
        ]
    )


def _failed(session: dict[str, Any] | None, failed: int, count: int) -> str:
    """How many cases failed, unless the session's own answer says it."""
    text = f"{failed} of {count} cases failed"
    return "" if session is not None and text in session["text"] else f"{text}. "


def _answers(session: dict[str, Any] | None) -> list[str]:
    """Whether the stack got slower and whether the machine did, where a reference tells."""
    if session is None or session["machine"] is None:
        return []
    rows = (_answer(name, session[name]) for name in ("stack", "machine"))
    return ["| | slower? | |", "|---|---|---|", *rows, ""]


def _answer(name: str, found: dict[str, Any] | None) -> str:
    if found is None:
        return f"| the {name} | unknown | no verdict |"
    word = {True: "**yes**", False: "no", None: "unknown"}[found["is_slower"]]
    return f"| the {name} | {word} | {_cell(found['text'])} |"


def _changed_cases(cases: list[dict[str, Any]]) -> list[str]:
    """A row for each case that differs from its baseline or failed; of the others how many."""
    changed = sorted(filter(_is_changed, cases), key=_rank)
    usual = Counter(_usual_word(case) for case in cases if not _is_changed(case))
    counts = ", ".join(f"{count} {word}" for word, count in usual.most_common())
    lines = ["### What changed", "", _HEAD, *map(_row, changed), ""] if changed else []
    if usual:
        begin = f"The other {usual.total()}" if changed else f"None of {usual.total()} changed"
        lines += [f"{begin}: {counts}.", ""]
    return lines


def _is_changed(case: dict[str, Any]) -> bool:
    return case["failed"] or (case["outcome"] in _CHANGED and not case["expected"])


def _usual_word(case: dict[str, Any]) -> str:
    return f"{_cell(case['outcome'])} as expected" if case["expected"] else _cell(case["outcome"])


def _folded(title: str, head: str, rows: Iterator[str]) -> list[str]:
    """A table that a click unfolds; the empty lines make it Markdown."""
    return ["<details>", f"<summary>{title}</summary>", "", head, *rows, "", "</details>"]


def compiled_summary(document: dict[str, Any]) -> str:
    """The session's verdict and a row for each case that is not as its baseline says."""
    session = document["session"]
    told = [one for one in document["cases"] if one["outcome"] != "PASS" and not one["expected"]]
    failed = sum(case["failed"] for case in told)
    verdict = _verdict(session, failed)
    lines = [
        "## What compilers make of it, without the hardware",
        "",
        f"{verdict}. {failed} of {len(document['cases'])} cases failed, "
        f"{len(told)} are not as the baselines say.",
    ]
    if told:
        rows = [_compiled_row(one) for one in sorted(told, key=lambda one: not one["failed"])]
        lines += ["", _COMPILED_HEAD, *rows]
    return "\n".join(lines)


def _verdict(session: dict[str, Any] | None, failed: int) -> str:
    """The session's answer; none in which a case failed is called fine."""
    if session is None:
        return "**No verdict**"
    first = session["outcomes"][0]
    word = "FAILED" if failed and first == "FINE" else first
    return f"**{_cell(word)}**: {_cell(session['text'])}"


def _compiled_row(case: dict[str, Any]) -> str:
    payload = case["id"].rsplit("-", 1)[1]
    release = case["program"]["release"] if case["program"] else ""
    cells = (case["spec"]["topology"], payload, release)
    return _line(*map(_cell, cells), _outcome(case), _cell(case["text"]))


def _rank(case: dict[str, Any]) -> tuple[bool, float]:
    """Failures first, then the slowest against its baseline; what has no ratio comes last."""
    return (not case["failed"], -(case["ratio"] or 0.0))


def _row(case: dict[str, Any]) -> str:
    framework, strategy, dtype, payload = case["id"].rsplit("-", 3)
    outcome = _outcome(case)
    return _line(
        _cell(f"{framework} {strategy} {dtype}"),
        _cell(payload),
        _busbw(case["now"]),
        _busbw(case["baseline"]),
        f"{case['ratio']:.2f}" if case["ratio"] else "",
        f"{outcome}: {_cell(case['text'])}" if _is_changed(case) else outcome,
    )


def _outcome(case: dict[str, Any]) -> str:
    return f"**{_cell(case['outcome'])}**" if case["failed"] else _cell(case["outcome"])


def _busbw(found: dict[str, Any] | None) -> str:
    return f"{found['busbw_gb_per_s']:.4g}" if found else ""


def changes_summary(document: dict[str, Any]) -> str:
    """The latest changes of level of each machine, newest first, those that all cases share on top.

    The latest days are those before the newest session of all.
    """
    machines = document["machines"]
    if not machines:
        return "The history holds no session."
    newest = max(_moment(one["at"]) for machine in machines for one in machine["sessions"])
    since = newest - timedelta(days=_CHANGE_DAYS)
    lines = [f"### Levels that changed since {since:%Y-%m-%d}"]
    for machine in machines:
        rows = [row for found in (_shared(machine), _own(machine)) for row in _latest(found, since)]
        lines += ["", f"{_cell(machine['folder'])}: {_of_changes(len(rows))}"]
        lines += ["", _CHANGE_HEAD, *rows[:_MOST_CHANGES]] if rows else []
    return "\n".join(lines)


# What changed, and the change.
_Change = tuple[str, dict[str, Any]]


def _shared(machine: dict[str, Any]) -> list[_Change]:
    """The changes that all cases of a framework have in common."""
    found = machine["shared_changes"].items()
    return [(f"all cases of {text}", change) for text, changes in found for change in changes]


def _own(machine: dict[str, Any]) -> list[_Change]:
    """The changes of each case."""
    return [
        (f"{case['name']}, {case['series']}" if case["stack"] else case["name"], change)
        for case in machine["cases"]
        for change in case["changes"]
    ]


def _latest(found: list[_Change], since: datetime) -> list[str]:
    """Rows of the changes since then, newest first and of one night the greatest first."""
    latest = [(what, one) for what, one in found if _moment(one["at"]) >= since]
    latest.sort(key=lambda one: abs(one[1]["ratio"] - 1), reverse=True)
    latest.sort(key=lambda one: _moment(one[1]["at"]), reverse=True)
    return [_change_row(what, change) for what, change in latest]


def _change_row(what: str, change: dict[str, Any]) -> str:
    ratio = change["ratio"]
    return _line(
        f"{_moment(change['at']):%Y-%m-%d}",
        _cell(what),
        f"{100 * abs(ratio - 1):.3g} % {'slower' if ratio > 1 else 'faster'}",
        _cell(change["sessions"]),
        _cell(", ".join(change["changes"])) or "nothing that is known",
        _cell(change["reason"]),
    )


def _of_changes(number: int) -> str:
    """How many there are, and that not all are shown."""
    if number == 0:
        return "none"
    more = f"; the first {_MOST_CHANGES} are shown" if number > _MOST_CHANGES else ""
    return f"{number} {'change' if number == 1 else 'changes'}{more}"


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


# What Markdown could take for markup, but for what stands between two letters.
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def _cell(value: object) -> str:
    """Text that ends neither its cell nor its row, and in which there is no markup."""
    words = " ".join(str(value).split())
    shown = "".join(one if one.isprintable() else _escape(one) for one in words)
    return _MARKUP.sub(r"\\\g<0>", shown).replace("&", "&amp;").replace("<", "&lt;")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


# What reading a document of another form raises.
_DAMAGED = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def main(path: Path, history: Path | None = None) -> tuple[str, int]:
    """The summary of these files, or why there is none; and the exit code."""
    text, code = _read(path, "results", lambda found: _form(found)(found))
    if history is None:
        return text, code
    changes, history_code = _read(history, "history", changes_summary)
    return f"{text}\n\n{changes}", max(code, history_code)


def _form(document: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    return compiled_summary if document["environment"] is None else summary


def _read(path: Path, what: str, worded: Callable[[dict[str, Any]], str]) -> tuple[str, int]:
    """What `worded` makes of the file, or a sentence on why it cannot."""
    were, are = ("was", "is") if what == "history" else ("were", "are")
    if not path.exists():
        return f"No {what} {were} written; the log says why.", 0
    if not path.is_file():
        return f"{path} is not a file of {what}.", 1
    try:
        return worded(json.loads(path.read_text(encoding="utf-8"))), 0
    except OSError as error:
        return f"The {what} cannot be read: {error.strerror}.", 1
    except _DAMAGED as error:
        reason = _cell(f"{type(error).__name__}: {str(error)[:200]}")
        return f"The {what} {are} damaged: {reason}.", 1


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    text, code = main(*map(Path, sys.argv[1:3]))
    print(text)
    sys.exit(code)
