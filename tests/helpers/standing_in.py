"""Interpreters in which a framework of any name is the fake back end, so that there are several.

Each framework plays its own script, from the variable BUSBW_FAKE_ and its name.
"""

from __future__ import annotations

import json
import sys

from tests.helpers.session_folder import Folder
from tests.helpers.workers import write_program

_PROGRAM = """\
import dataclasses, os, sys

sys.argv.pop(0)
sys.path.insert(0, sys.argv[0])
(name,) = (word.split("=")[1] for word in sys.argv if word.startswith("--framework="))
os.environ["BUSBW_FAKE"] = os.environ.get("BUSBW_FAKE_" + name, "{}")

from busbw.worker import backends
from busbw.worker.__main__ import main
from busbw.worker.backends.fake import FakeBackend


class StandIn(FakeBackend):
    def probe(self):
        return dataclasses.replace(super().probe(), framework=name)


backends.load = lambda framework, device, ranks, member: StandIn(device, ranks)
main()
"""


# What it has is asked with -c.
_ASKED = """[ "$1" = -c ] && echo '{"python": "3.11.0"}' && exit\n"""


def interpreter(folder: Folder, name: str = "standing-in") -> str:
    """Write such an interpreter, and return its path; all of them load the same files."""
    program = folder.path / "standing_in.py"
    program.write_text(_PROGRAM)
    text = f'#!/bin/sh\n{_ASKED}exec {sys.executable} {program} "$@"\n'
    return str(write_program(folder.path / name, text))


def script(folder: Folder, framework: str, **fields: object) -> None:
    """Set what `framework` plays in these interpreters."""
    folder.environment.setenv(f"BUSBW_FAKE_{framework}", json.dumps(fields))
