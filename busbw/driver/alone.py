"""One session at a time on a machine: who else measures there is waited for.

On the hosts of agents it is the agents that hold the lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from busbw import locks


class BusyError(Exception):
    """Another session measured on this machine until the timeout, or nothing can rule that out."""


@contextlib.contextmanager
def alone(wait_s: float, on_wait: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Raises BusyError after `wait_s`; `on_wait` gets the holder, such as ``pid 1234, ...``."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locks.machine(wait_s, lambda holder: on_wait(holder.text)))
        except locks.Busy as error:
            raise BusyError(
                "another session has been measuring on this machine for "
                f"{wait_s:g} s ({error.holder.text})"
            ) from error
        except OSError as error:
            raise BusyError(f"the machine cannot be locked: {error}") from error
        yield
