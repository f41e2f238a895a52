"""`busbw agent`: let this host take part in a session on another host.

Started on every host that measures; the session is `pytest perf/ --agents=N --listen=HOST:PORT`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys

from busbw.hosts.handshake import (
    LEAST_CHARACTERS,
    JoinError,
    Place,
    SecretError,
    address,
    secret_of,
)
from busbw.hosts.serve import AgentError, take_part
from busbw.session import forms
from busbw.session.option import Option, file_option

from . import Commands, add_command, command_error, usage_error

ORDER = 2

_DESCRIPTION = f"""
Let this host take part in a session that runs on another host: start the processes with which the
session measures, and end them when it ends. The session and all its agents need the same secret of
{LEAST_CHARACTERS} characters or more, in --secret-file, in the variable BUSBW_SECRET or on standard
input. Use it only in a network that you trust: a program that knows the secret can start programs
on this host, and nothing is encrypted.
"""


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "agent",
        run,
        *_OPTIONS,
        help="Let this host take part in a session that runs on another host",
        description=_DESCRIPTION,
        example="busbw agent --session=node1:61000 --rank=1 --secret-file=secret.txt",
    )


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
        help="Connect to the session at this address, the value of its --listen",
    ),
    Option(
        name="rank",
        parse=forms.whole(0),
        required=True,
        metavar="I",
        help="Be agent I of the session, counted from 0",
    ),
    file_option("secret_file", "Read the secret from FILE, which only its owner may read"),
    Option(
        name="host_name",
        parse=_name,
        metavar="NAME",
        help="Use this name for the host in messages and results (default: its own name)",
    ),
    Option(
        name="wait",
        parse=forms.whole(0),
        default="60",
        metavar="SECONDS",
        help="Wait at most this long for the session to listen",
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
