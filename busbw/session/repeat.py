"""The command that repeats a session, made of the options and variables that the session had.

Options that write files are left out: repeating a session must accept nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from busbw.model import variables

from . import forms
from .option import Given
from .options import OF_HOSTS, OPTIONS

if TYPE_CHECKING:
    from .settings import Settings

# Their values may be secrets.
_VARIABLES = ("against_env", "try_env")


def words_of(given: Given) -> tuple[str, ...]:
    """Return the options of a command line, and what selects its tests.

    What the ini file says holds for the next session, too.
    """
    words: list[str] = []
    for option in OPTIONS:
        value = given.options[option.name] if option.repeats else None
        if option.flag:
            words += [option.flag_name] if value else []
        elif option.repeated:
            texts = map(_without_value, value or ()) if option.name in _VARIABLES else value or ()
            words += [f"{option.flag_name}={text}" for text in texts]
        elif value is not None:
            words.append(f"{option.flag_name}={value}")
    return (*words, *given.selection)


def _without_value(text: str) -> str:
    """Return NAME=VALUE, with ``(set)`` for a value that is not recorded."""
    name, equals, value = text.partition("=")
    shown = variables.recorded({name: value}, os.path.expanduser("~")) if equals else {}
    return f"{name}={shown.get(name, variables.HIDDEN)}" if equals else text


def command_text(settings: Settings, environment: Mapping[str, str], device: str = "") -> str:
    """Return the command that repeats a session of these settings, for a shell.

    `environment` is that of this process. `device` is what was measured, which elsewhere another
    one might be. Home directories are ``~``, or ``$HOME`` where a shell would keep a ``~``.
    """
    places = {option.flag_name: place for place, option in enumerate(OPTIONS)}
    words = [*settings.repeat, *_found_words(settings, device)]
    words.sort(key=lambda word: places.get(word.partition("=")[0], len(places)))
    flags = variables.recorded(environment, os.path.expanduser("~"))
    known = (f"{name}={_quoted(text)}" for name, text in flags.items())
    return " ".join([*known, shlex.join(["busbw", "run", *words])])


def _found_words(settings: Settings, device: str) -> Iterator[str]:
    """Yield options that were not given, but follow from the machine or from variables."""
    names = {word.partition("=")[0] for word in settings.repeat}
    if device and not names & {"--device"}:
        yield f"--device={device}"
    if settings.history is not None and not names & {"--history"}:
        yield f"--history={settings.history}"
    if settings.require_baselines and device:
        yield "--require-baselines"


def _quoted(text: str) -> str:
    """Return a variable's value for a shell, which expands no ``~`` inside of it."""
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    with_home = variables.with_home(escaped, "$HOME")
    return shlex.quote(text) if with_home == escaped else f'"{with_home}"'


def find_slow_text(settings: Settings) -> str:
    """Return the command that looks for a slow host or link among the hosts of a session."""
    if settings.cluster is None:
        return "busbw find-slow --hosts=LIST"
    flags = {forms.flag(name) for name in OF_HOSTS}
    words = [word for word in settings.repeat if word.partition("=")[0] in flags]
    framework = settings.frameworks[0]
    words += [] if framework == "jax" else [f"--framework={framework}"]
    return shlex.join(["busbw", "find-slow", *words])
