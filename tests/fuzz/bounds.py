"""What every reader keeps to: an error of its own, five seconds, 200 MB, no file changed.

`BUSBW_FUZZ` says how many examples each reader gets; without it there are 200. Up to as many are
always the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, settings

VARIABLE = "BUSBW_FUZZ"
MOST_S = 5.0
MOST_BYTES = 200 * 10**6

_PROCESS = Path("/proc/self")
_ORDINARY = 200
_EXAMPLES = int(os.environ.get(VARIABLE, _ORDINARY))

# Other examples each time where there are many; none is kept in the checkout.
fuzzed = settings(
    max_examples=_EXAMPLES,
    derandomize=_EXAMPLES <= _ORDINARY,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@contextlib.contextmanager
def bounded(most_s: float = MOST_S) -> Iterator[None]:
    """Seconds are those of the processor: a busy machine changes none of them."""
    before_bytes, begun_s = _begun(), time.process_time()
    yield
    spent_s = time.process_time() - begun_s
    taken = _most_bytes() - before_bytes
    assert spent_s < most_s, f"{spent_s:.1f} s"
    assert taken < MOST_BYTES, f"{taken / 1e6:.0f} MB"


def _begun() -> int:
    """The resident size now; the highest one is counted anew from here on."""
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")
        return _most_bytes()
    return _most_bytes()


def _most_bytes() -> int:
    """The highest resident size."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", (_PROCESS / "status").read_text())
        if found is not None:
            return 1024 * int(found[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextlib.contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Nothing below `folder` is written, made or removed."""
    before = _contents(folder)
    yield
    assert before == _contents(folder)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
