"""`python -m busbw agent`: lets this host take part in a session on another one.

Started on every host that measures; the session is `pytest perf/ --agents=N --listen=HOST:PORT`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys

from busbw.hosts.handshake import LEAST_CHARACTERS, JoinError, Place, SecretError, secret_of
from busbw.hosts.serve import AgentError, take_part
from busbw.session import forms
from busbw.session.option import Option, file_option

from . import Commands, add_command, address, command_error, usage_error

ORDER = 2

_DESCRIPTION = f"""
Take part in a session on another host: start the processes that it measures with, and end them when
it ends. The session and all of its agents have the same secret, of {LEAST_CHARACTERS} characters or
more: in --secret-file, in the variable BUSBW_SECRET or on stdin. Whoever knows it can start
programs here. Nothing is encrypted: for networks that are trusted.
"""


def add_to(commands: Commands) -> None:
    words = "let this host take part in a session on another one"
    add_command(commands, "agent", run, *_OPTIONS, help=words, description=_DESCRIPTION)


def _name(text: str) -> str:
    if len(text) > 100 or not text.isprintable():
        raise ValueError(f"{text!r}; accepted are up to 100 characters")
    return text


_OPTIONS = (
    Option(
        name="session",
        parse=address,
        required=True,
        metavar="HOST:PORT",
        help="where the session listens, as its --listen says",
    ),
    Option(
        name="rank",
        parse=forms.whole(0),
        required=True,
        metavar="I",
        help="which of the session's agents this is, from 0 on",
    ),
    file_option("secret_file", "a file with the secret, which its owner alone may read"),
    Option(
        name="host_name",
        parse=_name,
        metavar="NAME",
        help="this host's name in messages and results (default: its own)",
    ),
    Option(
        name="wait",
        parse=forms.whole(0),
        default="60",
        metavar="SECONDS",
        help="how long to wait for the session to listen",
    ),
)


def run(options: argparse.Namespace) -> int:
    host, port = options.session
    name = options.host_name or platform.node() or "localhost"
    with usage_error(SecretError):
        secret = secret_of(options.secret_file, os.environ, sys.stdin)
    place = Place(host=host, port=port, rank=options.rank, name=name)
    with command_error(JoinError, AgentError):
        take_part(place, secret, options.wait)
    return 0
