"""Places in Python source that a reader must read twice, because a noun or a verb is missing.

- banned names: pronouns and participles as names of variables, parameters, functions and classes
- vague names: names such as `item`, which say no more than a pronoun
- fragments: docstrings of functions that do not begin with a verb
- "accepted is": error messages that say "accepted is" in place of "expected"
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator

from tests.structure.sizes import FUNCTIONS

_BANNED = "one found asked there said told given own at of what wanted known why within"
_VAGUE = (
    "item entry thing elem it each this that those who here now left rest wrong shown kept info "
    "data obj"
)
# A docstring that begins with such a word is a noun phrase or a subordinate clause.
_OPENERS = (
    "a an the what of by with none those where beside that how which as one it its if from in for "
    "to when whether no not all each every up on at this these them they some both only after "
    "before until without more raises true"
)
_ACCEPTED = re.compile(r"\baccepted (?:is|are)\b")


def counts(nodes: Collection[ast.AST], text: str) -> Counter[str]:
    """Count the places of each kind in a module, given all nodes of its tree and its text."""
    names = list(_bound_names(nodes))
    openers = [_opener(docstring) for docstring in _docstrings(nodes)]
    return Counter(
        banned_names=_number_of(_BANNED, names),
        vague_names=_number_of(_VAGUE, names),
        fragments=_number_of(_OPENERS, openers),
        accepted_is=len(_ACCEPTED.findall(text)),
    )


def _number_of(words: str, names: list[str]) -> int:
    vocabulary = frozenset(words.split())
    return sum(name in vocabulary for name in names)


def _bound_names(nodes: Collection[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.lstrip("_")
        elif isinstance(node, ast.arg):
            yield node.arg.lstrip("_")
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name.lower().lstrip("_")


def _docstrings(nodes: Collection[ast.AST]) -> Iterator[str]:
    """Yield the docstrings of functions; a property is described as a value, by a noun phrase."""
    for node in nodes:
        if isinstance(node, FUNCTIONS) and not any(
            "property" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield ast.get_docstring(node) or ""


def _opener(docstring: str) -> str:
    return re.split(r"\W+", docstring.strip("`"), maxsplit=1)[0].lower()
