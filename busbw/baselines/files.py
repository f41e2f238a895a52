"""The folder of baselines: where a file lies, one writer at a time.

Knows paths and locks; what stands in a file is decided elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from busbw import locks
from busbw.model import Case, EnvironmentKey

from .document import BaselineError, Document
from .key import folder_of
from .reading import read
from .seen import Seen

LOCK_TIMEOUT_S = 60.0


def path_of(root: Path, key: EnvironmentKey, case: Case) -> Path:
    """Where the file of `case` on `key` lies below `root`."""
    return root / folder_of(key) / case.key.file_name


def there(path: Path) -> bool:
    """Whether there is something at `path`. Raises BaselineError where that cannot be told."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror}") from error
    return True


def read_checked(path: Path, key: EnvironmentKey, case: Case) -> Document:
    """The Document in `path`, which must be the one of its place. Raises BaselineError."""
    document = read(path)
    names = (document.framework, document.collective, document.strategy)
    if document.environment != key or names != (case.framework, case.collective, case.strategy):
        raise BaselineError(
            f"{path}: document.environment: the file says {document.environment} and "
            f"{'.'.join(names)}, its place says {key} and {case.key.file_name}"
        )
    return document


def stored(path: Path, key: EnvironmentKey, case: Case) -> Document | None:
    """The Document in `path`, None where there is no file. Raises BaselineError."""
    return read_checked(path, key, case) if there(path) else None


@contextlib.contextmanager
def locked(root: Path) -> Iterator[Seen]:
    """One writer per baselines folder, however it is reached; with what is in it.

    Raises BaselineError.
    """
    with contextlib.ExitStack() as held:
        try:
            root.mkdir(parents=True, exist_ok=True)
            held.enter_context(locks.folder(root.resolve(), LOCK_TIMEOUT_S))
        except locks.Busy as error:
            raise BaselineError(
                f"{root}: another session has been writing for {LOCK_TIMEOUT_S:g} s "
                f"({error.holder.text})"
            ) from error
        except OSError as error:
            raise BaselineError(f"{root}: it cannot be locked for writing: {error}") from error
        yield Seen.below(root)
