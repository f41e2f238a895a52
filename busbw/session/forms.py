"""Parsers for the values of options, paths among them; which option has which is in `settings`.

A wrong value raises ValueError with the option and what is accepted; nothing is started here.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from busbw import files, metrics
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_folder
from busbw.driver.parallel import cache_folder
from busbw.frameworks import FRAMEWORKS
from busbw.history.files import HistoryError, check
from busbw.model.launch import Injection
from busbw.model.words import MIB, Extra, refusal
from busbw.report.page.html import is_page, missing_for_pages
from busbw.report.results import is_results
from busbw.stacks.lock import Lock

from .options import Given

T = TypeVar("T")

NO_NAMES: Mapping[str, str] = {}


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def one_of(
    name: str, text: str, accepted: Sequence[str], names: Mapping[str, str] = NO_NAMES
) -> str:
    if text not in accepted:
        raise ValueError(f"{flag(name)}: {refusal(text, accepted, names)}")
    return text


def checked(name: str, parse: Callable[[str], T], text: str) -> T:
    """What `parse` makes of `text`; its ValueError names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{flag(name)}: {error}") from error


def whole(name: str, text: str, *, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{flag(name)}: {text!r}; accepted is a whole number from {least}")
    return int(text)


def seconds_of(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e7:
        raise ValueError(f"{flag(name)}: {text!r}; accepted is a number of seconds above 0")
    return seconds


def ratio_of(name: str, text: str) -> float:
    """A ratio above 1, such as 1.25 for ``25%`` and ``1.25x``."""
    try:
        number = float(text[:-1])
    except ValueError:
        number = math.nan
    ratio = {"%": 1 + number / 100, "x": number}.get(text[-1:], math.nan)
    if not 1 < ratio < 1e3:
        raise ValueError(
            f"{flag(name)}: {text!r}; accepted is a loss such as 25%, or a ratio such as 1.25x"
        )
    return ratio


def words_of(
    name: str, text: str, accepted: Sequence[str], names: Mapping[str, str] = NO_NAMES
) -> tuple[str, ...]:
    words = [one_of(name, word.strip(), accepted, names) for word in text.split(",")]
    return tuple(dict.fromkeys(words))


def updates_of(text: str | None, accepted: Sequence[str]) -> str:
    """As the value is not required, argparse takes a path that follows for it."""
    if text is None:
        return ""
    if "/" in text or "::" in text or (text and text not in accepted and os.path.exists(text)):
        path = text[:60]
        raise ValueError(
            f"--update-baselines: takes {path!r} as its value; write pytest {path} "
            f"--update-baselines, or --update-baselines=all {path}"
        )
    return one_of("update_baselines", text, accepted)


_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(%|us|ms|s)(/M)?")

# What --against takes in place of an interpreter.
BASELINE = "baseline"


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """The reference: interpreters by framework, and environment variables.

    `tried` are variables of the candidate instead.
    `is_baseline`: the stack that is locked beside the baselines, which `locks` has by framework
    once it is built.
    """

    pythons: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    tried: Mapping[str, str] = field(default_factory=dict)
    is_baseline: bool = False
    locks: Mapping[str, Lock] = field(default_factory=dict)


def against_of(
    pythons: Sequence[str], variables: Sequence[str], tried: Sequence[str]
) -> Against | None:
    if not pythons and not variables and not tried:
        return None
    candidate = dict(_variable(text, "--try-env") for text in tried)
    if BASELINE in pythons:
        others = [text for text in pythons if text != BASELINE]
        if others or variables:
            other = f"--against={others[0]}" if others else "--against-env"
            raise ValueError(f"--against=baseline: not with {other}: its lock says both")
        if tried:
            raise ValueError("--try-env: not with --against=baseline, whose nights are a history")
        return Against(is_baseline=True)
    found: dict[str, str] = {}
    for text in pythons:
        framework, equals, python = text.partition("=")
        if not equals or framework not in FRAMEWORKS:
            found |= dict.fromkeys(FRAMEWORKS, program(text, "--against"))
        else:
            found[framework] = program(python, "--against")
    reference = dict(_variable(text, "--against-env") for text in variables)
    return Against(pythons=found, environment=reference, tried=candidate)


def program(python: str, option: str) -> str:
    """The absolute path of an interpreter. Raises ValueError if it is none."""
    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise ValueError(f"{option}: {python!r} is not an executable program")
    return os.path.abspath(found)


def _variable(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{option}: {text!r}; accepted is NAME=VALUE")
    return name, value


def injection_of(text: str) -> Injection | None:
    if not text:
        return None
    asked, _, sizes = text.partition("@")
    kind, _, amount = asked.partition(":")
    kinds = [extra.value for extra in Extra]
    if kind not in kinds:
        raise ValueError(refusal(kind, kinds))
    payloads = tuple(metrics.parse_payload(size) for size in sizes.split("+")) if sizes else ()
    extra = Extra(kind)
    if extra is Extra.MEMORY:
        return Injection(extra=extra, limit_bytes=metrics.parse_payload(amount), payloads=payloads)
    match = _AMOUNT.fullmatch(amount)
    if match is None or float(match[1]) <= 0 or (match[2] == "%" and match[3]):
        raise ValueError(
            f"{text[:60]!r}; accepted is delay:AMOUNT, where AMOUNT is such as 15%, 20us, 1ms or "
            "50us/M (for each MiB)"
        )
    number, unit, each = float(match[1]), match[2], match[3]
    if unit == "%":
        return Injection(extra=extra, share=number / 100, payloads=payloads)
    seconds = number * _UNITS_S[unit]
    if each:
        return Injection(extra=extra, seconds_per_byte=seconds / MIB, payloads=payloads)
    return Injection(extra=extra, seconds=seconds, payloads=payloads)


# Names the folder of the history where --history does not.
HISTORY = "BUSBW_HISTORY"

# With these options baselines are written.
WRITING = ("update_baselines", "rebase", "prune_baselines")


def stack_cache_of(text: str) -> Path:
    found = cache_folder(text)
    if found is None:
        raise ValueError("--stack-cache: 'none'; accepted is a folder")
    return found


def baselines_of(given: Given, text: str) -> Path:
    """The default folder need not exist yet; one that is named exists, or will be written."""
    if given.options["baselines"] == "":
        raise ValueError("--baselines: accepted is a folder")
    root = given.root / (text or "baselines")
    try:
        check_folder(
            root,
            may_be_missing=not text or bool(given.options["update_baselines"]),
            is_written=any(given.options[name] for name in WRITING),
            hint="; --update-baselines makes it",
        )
    except BaselineError as error:
        raise ValueError(f"--baselines: {error}") from error
    return root


def history_of(given: Given, texts: Mapping[str, str], stored: Path) -> Path | None:
    """None for none, and where nothing is measured. Files of baselines are none of a history."""
    text = texts["history"] or os.environ.get(HISTORY, "")
    if not text or texts["topology"]:
        return None
    what = "--history" if texts["history"] else HISTORY
    path = given.root / os.path.expanduser(text)
    if stored.resolve() in (path.resolve(), *path.resolve().parents):
        raise ValueError(f"{what}: {path} is in {stored}, which holds baselines only")
    try:
        check(path)
    except HistoryError as error:
        raise ValueError(f"{what}: {error}") from error
    return path


def results_of(given: Given, text: str, root: Path) -> Path | None:
    return _output(given, text, root, "--results", "earlier results of busbw", is_results)


def page_of(given: Given, texts: Mapping[str, str], root: Path) -> Path | None:
    if not texts["page"]:
        return None
    missing = missing_for_pages()
    if missing:
        raise ValueError(f"--page: {missing}")
    path = _output(given, texts["page"], root, "--page", "an earlier page", is_page)
    results = texts["results"]
    if path is not None and results and path == Path(results).absolute():
        raise ValueError(f"--page: {path} is the file of --results, too")
    return path


def _output(
    given: Given,
    text: str,
    root: Path,
    option: str,
    what: str,
    ours: Callable[[str], bool],
) -> Path | None:
    """A file that replaces an earlier one of the same kind: no baseline, no other file."""
    if not text:
        return None
    path = Path(text).absolute()
    try:
        files.check(path, what=what, ours=ours)
    except files.Refused as error:
        raise ValueError(f"{option}: {error}") from error
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(root)):
        raise ValueError(f"{option}: {path} is in {root}, which holds baselines only")
    for other_option, other in given.outputs.items():
        if real == Path(os.path.realpath(other)):
            raise ValueError(f"{option}: {path} is the file of {other_option}, too")
    return path
