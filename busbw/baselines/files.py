"""The folder of baselines: where a file lies, one writer at a time.

Knows paths and locks; what stands in a file is decided elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from busbw import locks, wire
from busbw.model import Case, EnvironmentKey

from .document import BaselineError, StoredFile, read_json
from .key import folder_of
from .seen import Seen

LOCK_TIMEOUT_S = 60.0


D = TypeVar("D", bound=StoredFile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Codec(Generic[D]):
    """What files of times and files of programs differ by; all else is the same for both.

    `folder` is where they lie below that of the baselines. `checked` is the document that JSON is,
    and raises WireError; `empty` the one of a key and a case that has no entry yet; `text` what is
    written of one; `is_empty` says that nothing is left in it.
    """

    folder: str
    checked: Callable[[Any], D]
    empty: Callable[[EnvironmentKey, Case], D]
    text: Callable[[D], str]
    is_empty: Callable[[D], bool]


def path_of(root: Path, key: EnvironmentKey, case: Case, folder: str = "") -> Path:
    """The file of `case` on `key` below `root`; `folder` is a codec's, by default that of times."""
    return root / folder / folder_of(key) / case.key.file_name


def there(path: Path) -> bool:
    """Whether there is something at `path`. Raises BaselineError where that cannot be told."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror}") from error
    return True


def read(codec: Codec[D], path: Path) -> D:
    """The checked document in `path`. Raises BaselineError."""
    try:
        return codec.checked(read_json(path))
    except wire.WireError as error:
        raise BaselineError(f"{path}: {error}") from error


def read_checked(codec: Codec[D], path: Path, key: EnvironmentKey, case: Case) -> D:
    """The document in `path`, which must be the one of its place. Raises BaselineError."""
    document = read(codec, path)
    names = (document.framework, document.collective, document.strategy)
    if document.environment != key or names != (case.framework, case.collective, case.strategy):
        raise BaselineError(
            f"{path}: document.environment: the file says {document.environment} and "
            f"{'.'.join(names)}, its place says {key} and {case.key.file_name}"
        )
    return document


def stored(codec: Codec[D], path: Path, key: EnvironmentKey, case: Case) -> D | None:
    """The document in `path`, None where there is no file. Raises BaselineError."""
    return read_checked(codec, path, key, case) if there(path) else None


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
