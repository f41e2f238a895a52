"""Agents on this host that the session starts itself, as it would start workers.

They connect as others do, and get the secret over stdin.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import busbw
from busbw.agent.addresses import address_text
from busbw.agent.processes import SECRET

from .bundle import Bundle
from .starting import Adopt, AgentStarter, child

_HOST = "127.0.0.1"
# As `python -m busbw`, with the package that this process has, wherever that lies.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from busbw.__main__ import main; "
    "sys.exit(main())"
)


def start_agent(
    address: str,
    rank: int,
    secret: bytes,
    *options: str,
    log: int,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """An agent on this host that connects to `address`; `log` is where it writes."""
    command = [sys.executable, "-c", _PROGRAM, str(Path(busbw.__file__).parents[1]), "agent"]
    inherited = {name: text for name, text in os.environ.items() if name != SECRET}
    command += [f"--session={address}", f"--rank={rank}", *options]
    process = child(command, subprocess.PIPE, log, log, {**inherited, **environment})
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(secret + b"\n")
    return process


class LocalAgents(AgentStarter):
    """Agents, by rank, that connect to `port` of this host."""

    is_here = True

    def __init__(self, bundle: Bundle, port: int, secret: bytes) -> None:
        super().__init__(bundle)
        self._address = address_text(_HOST, port)
        self._secret = secret

    def start(self, rank: int, adopt: Adopt) -> None:
        self._end(rank, 0.0)
        with self._log(rank).open("ab") as log:
            # The folder of an agent that is killed is removed with the bundle.
            self._running[rank] = start_agent(
                self._address,
                rank,
                self._secret,
                log=log.fileno(),
                environment={"TMPDIR": str(self._bundle.temporary)},
            )

    def place(self, rank: int) -> str:
        return "this host"
