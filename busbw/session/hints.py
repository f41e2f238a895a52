"""What is said beside pytest's words about options that it does not know: which are ours.

For options of nccl-tests, and for those that are nearly ours. pytest shows a hint only where it
refuses the command line, except for paths that are sizes.
"""

from __future__ import annotations

import difflib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from busbw.metrics import parse_payload
from busbw.model.words import payload_text

# Options of nccl-tests by what they say; those of pytest and pytest-xdist alone are none of it.
_OF_NCCL_TESTS = {
    option: what
    for what, options in {
        "begin": ("-b", "--minbytes"),
        "end": ("-e", "--maxbytes"),
        "factor": ("-f", "--stepfactor"),
        "step": ("-i", "--stepbytes"),
        "ranks": ("-g", "--ngpus"),
        "counts": ("-w", "--warmup_iters", "--iters"),
    }.items()
    for option in options
}
# Those of pytest-xdist that are near to one of ours, and are no mistake.
_OF_XDIST = ("--numprocesses", "--maxprocesses")
# What nccl-tests begins and ends with where that is not said.
_USUAL = "32M"
_SHORT = re.compile(r"(-[befigw])=?(\w+)")
_SIZE = re.compile(r"\d+[KMGkmg]")
# Nearer than this, a word is taken for a mistyped option of ours.
_LIKENESS = 0.8


def of(arguments: Sequence[str], flags: Sequence[str]) -> str:
    """Empty where there is none; `flags` are our options."""
    return "; ".join([*_of_nccl_tests(_asked(arguments)), *_nearly(arguments, flags)])


def of_keyword(keyword: str, selected: Sequence[tuple[str, str]]) -> str:
    """Of a payload that is part of others', as 4K of 64K; `selected` has dtype and payload."""
    others = dict.fromkeys(size for _, size in selected if size != keyword)
    alone = dict.fromkeys(f"{dtype}-{keyword}" for dtype, size in selected if size == keyword)
    if not (_SIZE.fullmatch(keyword) and others and alone):
        return ""
    named = " or ".join(alone)
    return (
        f"busbw: -k {keyword} selects {', '.join(others)}, too; "
        f'-k "{named}" selects {keyword} alone'
    )


def check_paths(paths: Sequence[str]) -> None:
    """Raise ValueError for a size among the paths of tests: lists were written with spaces."""
    for path in paths:
        if _SIZE.fullmatch(path) and not os.path.exists(path):
            raise ValueError(
                f"{path!r} is no file or folder of tests; a list of sizes is one word, such as "
                "--payloads=1K,64K"
            )


def _asked(arguments: Sequence[str]) -> dict[str, str]:
    found = {}
    for word, following in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        short = _SHORT.fullmatch(word)
        name, equals, value = (short[1], "=", short[2]) if short else word.partition("=")
        if name in _OF_NCCL_TESTS:
            found[_OF_NCCL_TESTS[name]] = value if equals else following
    return found


def _of_nccl_tests(asked: Mapping[str, str]) -> Iterator[str]:
    # -f by itself also means something to pytest-xdist.
    if asked.keys() <= {"factor"}:
        return
    factor = [asked["factor"][:4]] if asked.get("factor", "2") != "2" else []
    if asked.keys() & {"begin", "end"}:
        ends = [*(_size(asked.get(name, _USUAL)) for name in ("begin", "end")), *factor]
        yield f"for nccl-tests' -b and -e write --payloads={':'.join(ends)}"
    elif factor:
        yield f"for -f write --payloads=1K:1024M:{factor[0]}"
    if "step" in asked:
        yield "a range grows by a factor; other steps are a comma list"
    if asked.get("ranks", "1") != "1":
        yield f"for -g write --ranks={asked['ranks']}"
    if "counts" in asked:
        yield "iterations are chosen by time (--launches: how many processes)"


def _size(text: str) -> str:
    try:
        return payload_text(parse_payload(text))
    except ValueError:
        return text[:20]


def _nearly(arguments: Sequence[str], flags: Sequence[str]) -> Iterator[str]:
    for word in arguments:
        name, equals, value = word.partition("=")
        if name.startswith("--") and name not in (*flags, *_OF_NCCL_TESTS, *_OF_XDIST):
            for near in difflib.get_close_matches(name, flags, n=1, cutoff=_LIKENESS):
                yield f"did you mean {near}{equals}{value[:60]}?"
