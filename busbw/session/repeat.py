"""The command that repeats a session, made of the options and variables that the session had.

Options that write files are left out: repeating a session must accept nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from busbw.model import variables

from .command_line import OptionParser
from .option import Option
from .options import OPTIONS, Options

# Options whose values may be secrets.
_VARIABLES = ("against_env", "try_env")


def repeat_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command line that write nothing, without values of secrets.

    Settings of the ini file hold for the next session, too.
    """
    texts = vars(OptionParser(map(_with_text, OPTIONS.values())).parse_known_args(words)[0])
    repeated: list[str] = []
    for name, option in OPTIONS.items():
        value = None if option.is_output else texts.get(name)
        if value is True:
            repeated.append(option.flag)
        elif option.is_repeated:
            # Python 3.11 makes an empty list of two dashes, which are refused later.
            repeated += [
                f"{option.flag}={_without_secret(name, text)}" for text in filter(None, value or ())
            ]
        elif value is not None:
            repeated.append(f"{option.flag}={value}")
    return tuple(repeated)


def _with_text(option: Option) -> Option:
    """Return the option with the text as its value."""
    kept = {name: a for name, a in option.arguments.items() if name not in ("type", "choices")}
    return replace(option, arguments=kept)


def _without_secret(option: str, text: str) -> str:
    """Return NAME=VALUE of an option, with ``(set)`` for a value that is not recorded."""
    name, equals, value = text.partition("=")
    if option not in _VARIABLES or not equals:
        return text
    recorded = variables.recorded({name: value}, os.path.expanduser("~"))
    return f"{name}={recorded.get(name, variables.HIDDEN)}"


def command_text(options: Options, environment: Mapping[str, str], device: str = "") -> str:
    """Return the command that repeats a session of these options, for a shell.

    `environment` is that of this process. `device` is the device that was measured, which could be
    another one on another machine. Home directories are ``~``, or ``$HOME`` where a shell would
    keep a ``~``.
    """
    places = {option.flag: place for place, option in enumerate(OPTIONS.values())}
    words = [*options.command, *_implied_words(options, device)]
    words.sort(key=lambda word: places.get(word.partition("=")[0], len(places)))
    flags = variables.recorded(environment, os.path.expanduser("~"))
    assignments = (f"{name}={_quoted(text)}" for name, text in flags.items())
    return " ".join([*assignments, shlex.join(["busbw", "run", *words])])


def _implied_words(options: Options, device: str) -> Iterator[str]:
    """Yield options that were not passed, but follow from the machine or from variables."""
    flags = {word.partition("=")[0] for word in options.command}
    if device and "--device" not in flags:
        yield f"--device={device}"
    if options.history is not None and "--history" not in flags:
        yield f"--history={options.history}"
    if options.require_baselines and device and "--require-baselines" not in flags:
        yield "--require-baselines"


def _quoted(text: str) -> str:
    """Return a variable's value for a shell, which expands no ``~`` inside of it."""
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    with_home = variables.with_home(escaped, "$HOME")
    return shlex.quote(text) if with_home == escaped else f'"{with_home}"'
