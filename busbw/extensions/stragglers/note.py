"""The note that tells the user of several hosts how to find a slow host or link."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from busbw.model.words import Outcome
from busbw.session.option import HOSTS
from busbw.session.options import OPTIONS, Options
from busbw.session.state import Judged, Measured


def notes_of(judged: Judged) -> Iterator[str]:
    """Yield a note with the command `busbw find-slow` if a case is slower on several hosts."""
    is_slower = any(v.outcome is Outcome.REGRESSED for v in judged.verdicts.values())
    measured = judged.observations
    if is_slower and isinstance(measured, Measured) and measured.environment.key.hosts > 1:
        yield f"which host or link is slow: {find_slow_text(measured.options)}"


def find_slow_text(options: Options) -> str:
    """Return the command `busbw find-slow` with the options that name the session's hosts."""
    if options.remote is None:
        return "busbw find-slow --hosts=LIST"
    has_value = {
        option.flag: "action" not in option.arguments
        for option in OPTIONS.values()
        if option.group == HOSTS
    }
    words = [
        word
        for previous, word in zip(("", *options.command), options.command)
        if word.partition("=")[0] in has_value or has_value.get(previous)
    ]
    framework = options.frameworks[0]
    words += [] if framework == "jax" else [f"--framework={framework}"]
    return shlex.join(["busbw", "find-slow", *words])
