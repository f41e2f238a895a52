"""The results of a session as a Markdown table for the page of a workflow run, worst case first.

Standard library only and nothing of busbw: it must still speak when busbw could not be installed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_COMPILED_HEAD = """\
| topology | payload | compiler | outcome | what |
|---|---:|---|---|---|"""

_HEAD = """\
| case | payload | busbw GB/s | baseline GB/s | ratio | outcome |
|---|---:|---:|---:|---:|---|"""


def summary(document: dict[str, Any]) -> str:
    """A heading, the session's verdict and a row per case; a ratio above 1 is slower."""
    environment, session = document["environment"], document["session"]
    key = environment["key"]
    rows = [_row(case) for case in sorted(document["cases"], key=_rank)]
    failed = sum(case["failed"] for case in document["cases"])
    verdict = _verdict(session, failed)
    return "\n".join(
        [
            f"## All-reduce on {key['device_kind']}, {key['ranks']} ranks",
            "",
            f"{verdict}. {failed} of {len(rows)} cases failed. "
            "The ratio is time now over time of the baseline, or of the reference measured in "
            "turn: above 1 is slower.",
            "",
            *_answers(session),
            _HEAD,
            *rows,
        ]
    )


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
    word = "FAILED" if failed and session["outcome"] == "FINE" else session["outcome"]
    return f"**{word}**: {_cell(session['text'])}"


def _compiled_row(case: dict[str, Any]) -> str:
    outcome = f"**{case['outcome']}**" if case["failed"] else case["outcome"]
    payload = case["id"].rsplit("-", 1)[1]
    cells = (case["spec"]["topology"], payload, case["release"], outcome, case["text"])
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _rank(case: dict[str, Any]) -> tuple[bool, float]:
    """Failures first, then the slowest against its baseline; what has no ratio comes last."""
    return (not case["failed"], -(case["ratio"] or 0.0))


def _row(case: dict[str, Any]) -> str:
    framework, strategy, dtype, payload = case["id"].rsplit("-", 3)
    outcome = f"**{case['outcome']}**: {case['text']}" if case["failed"] else case["outcome"]
    cells = (
        f"{framework} {strategy} {dtype}",
        payload,
        _busbw(case["measured"]),
        _busbw(case["baseline"]),
        f"{case['ratio']:.2f}" if case["ratio"] else "",
        outcome,
    )
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _busbw(found: dict[str, Any] | None) -> str:
    return f"{found['busbw_gb_per_s']:.4g}" if found else ""


def _cell(text: str) -> str:
    """Text that ends neither its cell nor its row."""
    return " ".join(text.split()).replace("|", "\\|")


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


def main(path: Path) -> tuple[str, int]:
    """The summary of the file at `path`, or why there is none; and the exit code."""
    if not path.exists():
        return "No results were written; the log says why.", 0
    if not path.is_file():
        return f"{path} is not a file of results.", 1
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return (compiled_summary if "compilers" in document else summary)(document), 0
    except OSError as error:
        return f"The results cannot be read: {error.strerror}.", 1
    except _DAMAGED as error:
        return f"The results are damaged: {type(error).__name__}: {str(error)[:200]}.", 1


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    text, code = main(Path(sys.argv[1]))
    print(text)
    sys.exit(code)
