"""Workers for a command: how one of this interpreter is started, and who starts them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from busbw import driver
from busbw.frameworks import FRAMEWORKS
from busbw.model import Capability


def starter(framework: str, capability: Capability, device: str = "") -> driver.Starter:
    """A worker of `framework` under the interpreter that runs the command."""
    return driver.Starter(
        python=sys.executable,
        framework=framework,
        capability=capability,
        device=device,
        defaults=FRAMEWORKS[framework].environment,
    )


@contextlib.contextmanager
def executor(on_note: Callable[[str], None] = lambda note: None) -> Iterator[driver.Executor]:
    """Processes on this machine; nothing of them is left at the end."""
    bundle = driver.Bundle()
    try:
        yield driver.Executor(driver.LocalTransport(bundle), on_note)
    finally:
        bundle.remove()
