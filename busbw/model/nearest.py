"""What is said of a word that is not one of a closed set: the nearest that is, and what there is.

A sentence must fit into a few lines of a terminal, however many words there are.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from .words import plural

# Beyond it, a list is cut short.
_LIST_CHARACTERS = 110
_NO_NAMES: Mapping[str, str] = {}


def refusal(text: str, accepted: Sequence[str], names: Mapping[str, str] = _NO_NAMES) -> str:
    """`names` are what others call the accepted words, such as ``fp16`` for ``float16``."""
    near = nearest(text, accepted, names)
    meant = f"did you mean {near!r}? " if near else ""
    return f"{text[:60]!r}; {meant}accepted are {listed(accepted, near)}"


def nearest(text: str, accepted: Sequence[str], names: Mapping[str, str] = _NO_NAMES) -> str:
    """The word of `accepted` that is most like `text`, whatever the case; empty if none is."""
    text = text[:60].lower()
    known = {word.lower(): word for word in (*names, *accepted) if _may_be(text, word)}
    found = difflib.get_close_matches(text, known, n=1)
    word = known[found[0]] if found else ""
    return names.get(word, word)


def _may_be(text: str, word: str) -> bool:
    """Whether its number, if any, is that of `word` but for a slip: float64 is not float16."""
    one, other = ("".join(filter(str.isdecimal, name)) for name in (text, word))
    steps = difflib.SequenceMatcher(None, one, other).get_opcodes()
    wrong = (max(b - a, d - c) for what, a, b, c, d in steps if what != "equal")
    return not one or (bool(other) and sum(wrong) <= 1)


def listed(accepted: Sequence[str], near: str = "", where: str = "--help") -> str:
    """All words, or those that fit, first the one that is `near`, and `where` all are listed."""
    text = ", ".join(accepted)
    if len(text) <= _LIST_CHARACTERS:
        return text
    first = [word for word in dict.fromkeys([near, *accepted]) if word]
    while len(", ".join(first)) > _LIST_CHARACTERS / 2:
        first.pop()
    others = plural(len(accepted) - len(first), "other")
    return f"{', '.join(first)} and {others}, which {where} lists"
