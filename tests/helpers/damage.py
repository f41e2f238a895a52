"""Damaged documents and bytes; every reader keeps to an error of its own, five seconds, 200 MB.

A valid document is changed in up to four places: a value is replaced, removed, repeated, cut or
becomes another's. What JSON of Python's own cannot write is put into the text. `BUSBW_FUZZ` says
how many examples each reader gets; without it there are 200, and up to as many are always the same.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Words in the text that stand for what `json.dumps` does not write.
_LITERALS = {
    '"@huge"': "1e400",
    '"@digits"': "1" + "0" * 5000,
    '"@deep"': "[" * 3000 + "]" * 3000,
    '"@zero"': "-0.0",
    '"@cut"': '"',
    '"@twice"': '1, "ranks": 2, "ranks": 3, "x": 4',
}
_WORDS = (
    *("", "x", "\0", "\ud800", "../..", "NaN", "@huge", "@digits", "@deep", "@zero", "@cut"),
    *("@twice", "junk/fake", "host/fake", "device", "2x2", "9" * 30 + "x2", "xy", "x", "ok", "oom"),
    *("all_reduce", "all_gather", "2026-13-01", "2026-02-01", "1M"),
    *("\u0660\u0661", "|", "\n", "a" * 3000, "float32", "FAILED", "0" * 100, "1e3", "true"),
)
_NUMBERS = (
    *(0, 1, 2, 3, 4, -1, 7, 1024, 2**20, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30),
    *(10**400, 0.5, -0.0, 1e-320, 1e-12, 1e-6, 1e6, 1e12, 1.7e308, -1.7e308),
    *(float("nan"), float("inf"), float("-inf"), 1e-300, 1000001, 10**12),
)
_OTHERS: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], [{}], {"": None}, {"a": 1}, ["x"], [1.0], [0.0]),
    *([None] * 5, [1e-3] * 300, {str(n): n for n in range(200)}, [-1e-3, 1e-3], [[1]] * 3),
)

values = st.one_of(
    st.sampled_from(_NUMBERS),
    st.sampled_from(_WORDS),
    st.sampled_from(_OTHERS),
    st.floats(),
    st.integers(),
    st.text(max_size=20),
)

_kinds = st.sampled_from(
    ("replace", "replace", "replace", "remove", "repeat", "add", "swap", "cut", "multiply")
)
_change = st.tuples(_kinds, st.integers(0, 10_000), st.integers(0, 10_000), values)
_changes = st.lists(_change, min_size=1, max_size=4)
_damages = st.lists(
    st.tuples(
        st.sampled_from(("flip", "remove", "repeat", "cut", "insert")),
        st.floats(0, 1),
        st.integers(0, 255),
        st.integers(1, 40),
    ),
    max_size=3,
)

anything = st.recursive(
    values,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)


def places(document: Any) -> list[tuple[Any, Any]]:
    """(list or object, index or key) of every value in `document`, outer ones first."""
    pairs: list[tuple[Any, Any]] = []
    waiting = [document]
    for holder in waiting:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        pairs += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys if isinstance(holder[key], (dict, list))]
    return pairs


def changed(document: Any, changes: list[tuple[str, int, int, Any]]) -> Any:
    """Return a copy of `document` after the changes."""
    held = [copy.deepcopy(document)]
    for kind, number, other, worth in changes:
        all_places = places(held)
        holder, key = all_places[number % len(all_places)]
        if kind == "replace":
            holder[key] = copy.deepcopy(worth)
        elif kind == "remove" and holder is not held:
            del holder[key]
        elif kind == "repeat" and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == "add" and isinstance(holder, dict):
            holder[str(worth)] = copy.deepcopy(holder[key])
        elif kind == "swap":
            source, name = all_places[other % len(all_places)]
            holder[key] = copy.deepcopy(source[name])
        elif kind == "cut" and isinstance(holder[key], (list, str)):
            holder[key] = holder[key][: other % (len(holder[key]) + 1)]
        elif kind == "multiply" and isinstance(holder[key], list):
            holder[key] = (holder[key] * (other % 50))[:1000]
    return held[0]


def written(document: Any) -> bytes:
    """`document` as JSON, with what only damaged files hold."""
    try:
        text = json.dumps(document)
    except ValueError:
        # A number of so many digits that Python does not write it.
        return b"1" + b"0" * 5000
    for word, literal in _LITERALS.items():
        text = text.replace(word, literal)
    return text.encode()


def damaged(content: bytes, damages: list[tuple[str, float, int, int]]) -> bytes:
    """`content` with bytes flipped, removed, repeated, inserted, or cut off."""
    held = bytearray(content)
    for kind, where, byte, count in damages:
        start = int(where * len(held))
        if kind == "flip":
            held[start : start + 1] = bytes(
                flipped ^ (byte or 1) for flipped in held[start : start + 1]
            )
        elif kind == "remove":
            del held[start : start + count]
        elif kind == "repeat":
            held[start:start] = held[start : start + 10 * count]
        elif kind == "insert":
            held[start:start] = bytes([byte]) * count
        else:
            del held[start:]
    return bytes(held)


def documents(*valid: Any) -> st.SearchStrategy[bytes]:
    """Mostly one of the `valid` documents, changed; some other JSON; some bytes."""
    structural = st.builds(
        lambda document, changes: written(changed(document, changes)),
        st.sampled_from(valid),
        _changes,
    )
    bytewise = st.builds(
        lambda document, damages: damaged(written(document), damages),
        st.sampled_from(valid),
        _damages,
    )
    other = st.builds(written, anything)
    return st.one_of(structural, structural, structural, structural, bytewise, other, st.binary())


def contents(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Mostly one of the `valid` contents, damaged; some bytes."""
    bytewise = st.builds(damaged, st.sampled_from(valid), _damages)
    return st.one_of(bytewise, bytewise, bytewise, bytewise, st.binary())


VARIABLE = "BUSBW_FUZZ"
MOST_S = 5.0
MAX_DOCUMENT_BYTES = 200 * 10**6

_PROCESS = Path("/proc/self")
_ORDINARY = 200
_EXAMPLES = int(os.environ.get(VARIABLE, _ORDINARY))

# Other examples each time where there are many; none is kept in the checkout.
fuzzed = settings(
    max_examples=_EXAMPLES,
    derandomize=_EXAMPLES <= _ORDINARY,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@contextlib.contextmanager
def bounded(most_s: float = MOST_S) -> Iterator[None]:
    """Seconds are those of the processor: a busy machine changes none of them."""
    before_bytes, begun_s = _begun(), time.process_time()
    yield
    spent_s = time.process_time() - begun_s
    taken = _most_bytes() - before_bytes
    assert spent_s < most_s, f"{spent_s:.1f} s"
    assert taken < MAX_DOCUMENT_BYTES, f"{taken / 1e6:.0f} MB"


def _begun() -> int:
    """Return the resident size, and begin to count the highest one anew."""
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")
        return _most_bytes()
    return _most_bytes()


def _most_bytes() -> int:
    """Return the highest resident size."""
    with contextlib.suppress(OSError):
        match = re.search(r"VmHWM:\s+(\d+) kB", (_PROCESS / "status").read_text())
        if match is not None:
            return 1024 * int(match[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
