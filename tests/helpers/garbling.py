"""Interpreters whose workers answer something else in place of a reply.

BUSBW_GARBLED says which reply of which launch, and the file whose bytes the driver reads instead.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from busbw import wire
from tests.helpers import build
from tests.helpers.session_folder import Folder
from tests.helpers.workers import write_program

_PROGRAM = """\
import json, os, sys
from pathlib import Path

sys.argv.pop(0)
sys.path.insert(0, sys.argv[0])
(launch,) = (word.split("=")[1] for word in sys.argv if word.startswith("--launch="))
garbled = json.loads(os.environ["BUSBW_GARBLED"])

from busbw.worker import serve
from busbw.worker.__main__ import main

send = serve.send_reply


def sent(replies, value):
    if (type(value).__name__, launch) != (garbled["reply"], garbled["launch"]):
        return send(replies, value)
    replies.buffer.write(Path(garbled["raw"]).read_bytes())
    replies.buffer.flush()


serve.send_reply = sent
main()
"""


def reply(name: str, value: Any) -> bytes:
    """Return the line of a reply."""
    return json.dumps({"reply": name, "value": value}).encode() + b"\n"


def run_reply(**changes: Any) -> bytes:
    """Return the reply to a measurement, with other fields."""
    return reply("Run", {**wire.to_json(build.run(1e-3)), **changes})


def probe_reply(**changes: Any) -> bytes:
    """Return the reply to a probe, whose only device has other fields."""
    return reply("Probe", wire.to_json(build.probe(build.device_set(**changes))))


def garbled(folder: Folder, launch: str, reply: str, raw: bytes) -> str:
    """Write such an interpreter; `raw` stands for `reply`, such as ``Run``, of `launch`."""
    settings = {"launch": launch, "reply": reply, "raw": str(folder.path / "raw")}
    (folder.path / "raw").write_bytes(raw)
    folder.environment.setenv("BUSBW_GARBLED", json.dumps(settings))
    program = folder.path / "garbling.py"
    program.write_text(_PROGRAM)
    text = f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n'
    return str(write_program(folder.path / "garbled", text))
