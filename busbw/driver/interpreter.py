"""What an interpreter has of a framework, without a worker and without importing the framework.

It is asked in a fraction of a second, and before a session has the machine to itself: no device is
touched. Only the probe tells whether the framework works.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from busbw import wire
from busbw.agent import processes

from .executor import ProbeFailed
from .local import environment_of
from .transport import Starter

# Any Python can run this. What is found in the current folder does not reach a worker.
_ASKED = """
import json, sys
sys.path[:] = [path for path in sys.path if path]
found = {"python": sys.version.split()[0], "missing": [], "path": "", "version": ""}
if sys.version_info >= (3, 10):
    from importlib import util
    name, names = sys.argv[1], sys.argv[2:]
    specs = {one: util.find_spec(one) for one in (name, "numpy")}
    found["missing"] = [one for one in specs if specs[one] is None]
    origin, file = getattr(specs[name], "origin", None) or "", "/__init__.py"
    found["path"] = origin[: -len(file)] if origin.endswith(file) else origin
    if origin:
        # Takes longer than all the rest, and knows nothing of what is not there.
        from importlib import metadata
    for one in names if origin else ():
        try:
            there = metadata.distribution(one)
        except metadata.PackageNotFoundError:
            continue
        if str(there.locate_file(name + file)) == origin:
            found["version"] = there.version
            break
print(json.dumps(found))
"""
_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """Its version, what is `missing`, and where the framework is; "" where that is not known."""

    python: str
    missing: tuple[str, ...] = ()
    path: str = ""
    version: str = ""


def interpreter(starter: Starter, packages: Sequence[str]) -> Interpreter | None:
    """None where it did not say in time, or was killed. Raises ProbeFailed for no Python."""
    command = [starter.python, "-c", _ASKED, starter.framework, *packages]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=environment_of(starter),
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        raise ProbeFailed(f"{starter.python} cannot be run: {error.strerror}") from error
    if done.returncode < 0:
        return None
    said = (done.stdout if done.returncode == 0 else done.stderr).decode(errors="replace")
    last = next(iter(reversed(said.strip().splitlines())), "it said nothing")
    try:
        return wire.from_json(Interpreter, json.loads(last), "interpreter")
    except (ValueError, wire.WireError) as error:
        last = processes.text_of(last.encode(), os.environ)[:120]
        raise ProbeFailed(f"{starter.python} does not run as Python: {last}") from error
