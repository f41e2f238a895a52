"""Write down that a framework is imported, in a process of a test that may have none.

Python imports this as it starts, where this folder is on PYTHONPATH. Whether a framework is there
may be looked up: that is no import. Every process of every test starts with this, so that it
imports nothing that Python has not imported itself.
"""

from __future__ import annotations

import os
import sys

FRAMEWORKS = {"jax", "jaxlib", "tensorflow"}
SEEN = "BUSBW_TESTS_SEEN"


def _seen(event: str, arguments: tuple[object, ...]) -> None:
    if event == "import" and arguments[0] in FRAMEWORKS and os.environ.get(SEEN):
        path = os.path.join(os.environ[SEEN], str(arguments[0]))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))


# Tests import this too, to know the names.
if __name__ == "sitecustomize":
    sys.addaudithook(_seen)
