"""One measuring session per machine: two at once would measure each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from busbw import locks


class BusyError(Exception):
    """Another session has been measuring for as long as it was waited for, or might be."""


@contextlib.contextmanager
def alone(wait_s: float, on_wait: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Hold the machine, after up to `wait_s` for another session's end; then raise BusyError.

    `on_wait` is called before waiting, with who measures, such as ``pid 1234, started 03:12:08``.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locks.machine(wait_s, lambda holder: on_wait(holder.text)))
        except locks.Busy as error:
            raise BusyError(
                "another session has been measuring on this machine for "
                f"{wait_s:g} s ({error.holder.text})"
            ) from error
        except OSError as error:
            raise BusyError(
                f"nobody can be kept from measuring on this machine: {error}"
            ) from error
        yield
