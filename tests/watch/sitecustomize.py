"""Write down that a framework is imported, in a process of a test that may have none.

Python imports this as it starts, where this folder is on PYTHONPATH. Whether a framework is there
may be looked up: that is no import.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FRAMEWORKS = {"jax", "jaxlib", "tensorflow"}
SEEN = "BUSBW_TESTS_SEEN"


def _seen(event: str, arguments: tuple[object, ...]) -> None:
    if event == "import" and arguments[0] in FRAMEWORKS and os.environ.get(SEEN):
        Path(os.environ[SEEN], str(arguments[0])).touch()


# Tests import this too, to know the names.
if __name__ == "sitecustomize":
    sys.addaudithook(_seen)
