"""Make the command that repeats a session, from the session's options and environment variables.

Options that write files are left out, because repeating a session must not change its baselines.
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

# Options whose values are environment variables, which may be secrets.
_VARIABLES = ("against_env", "try_env")


def words_to_repeat(words: Sequence[str]) -> tuple[str, ...]:
    """Return the options in `words` that write nothing, without values that may be secrets.

    `words` are the words of a command line. Settings of the ini file are left out, because the
    repeated session reads them itself.
    """
    texts = vars(OptionParser(map(_without_parsing, OPTIONS.values())).parse_known_args(words)[0])
    repeated: list[str] = []
    for name, option in OPTIONS.items():
        value = None if option.is_output else texts.get(name)
        if value is True:
            repeated.append(option.flag)
        elif option.is_repeated:
            # argparse of Python 3.11 makes an empty list of a value ``--``, which is refused later.
            repeated += [
                f"{option.flag}={_without_secret(name, text)}" for text in filter(None, value or ())
            ]
        elif value is not None:
            repeated.append(f"{option.flag}={value}")
    return tuple(repeated)


def _without_parsing(option: Option) -> Option:
    """Return `option` with a type that keeps the text of its value as it is."""
    kept = {name: a for name, a in option.arguments.items() if name not in ("type", "choices")}
    return replace(option, arguments=kept)


def _without_secret(option: str, text: str) -> str:
    """Return the value `text` of `option`, without the value of a variable that may be secret.

    An option that sets a variable has the value ``NAME=VALUE``, in which ``(set)`` then replaces
    VALUE.
    """
    name, equals, value = text.partition("=")
    if option not in _VARIABLES or not equals:
        return text
    recorded = variables.recorded_variables({name: value}, os.path.expanduser("~"))
    return f"{name}={recorded.get(name, variables.HIDDEN)}"


def command_text(options: Options, environment: Mapping[str, str], device: str = "") -> str:
    """Return the shell command that repeats a session with these options.

    A home directory is written as ``~``, or as ``$HOME`` inside quotes, where a shell does not
    expand ``~``.

    Args:
        options: The options of the session.
        environment: The environment variables of this process.
        device: The class of the measured device. It is added as --device, because another machine
            may choose another device. Empty if nothing was measured.

    """
    positions = {option.flag: position for position, option in enumerate(OPTIONS.values())}
    words = [*options.command, *_implied_words(options, device)]
    words.sort(key=lambda word: positions.get(word.partition("=")[0], len(positions)))
    flags = variables.recorded_variables(environment, os.path.expanduser("~"))
    assignments = (f"{name}={_quote_value(text)}" for name, text in flags.items())
    return " ".join([*assignments, shlex.join(["busbw", "run", *words])])


def _implied_words(options: Options, device: str) -> Iterator[str]:
    """Yield options that were not passed, but that follow from the machine or the environment."""
    flags = {word.partition("=")[0] for word in options.command}
    if device and "--device" not in flags:
        yield f"--device={device}"
    if options.history is not None and "--history" not in flags:
        yield f"--history={options.history}"
    if options.require_baselines and device and "--require-baselines" not in flags:
        yield "--require-baselines"


def _quote_value(text: str) -> str:
    """Return the value of a variable, quoted for a shell, with ``$HOME`` in place of ``~``."""
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    with_home = variables.expand_homes(escaped, "$HOME")
    return shlex.quote(text) if with_home == escaped else f'"{with_home}"'
