"""The files that a worker runs, as they travel to a host: packed, in parts, and checked by hash.

An agent starts nothing before it has all of them and their hash is what the session said. Knows
neither which files they are nor the connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from .messages import Rooms

# As base64 and in JSON below the limit of a frame.
_PART_BYTES = 2**19
_MOST_BYTES = 2**26


class RoomsError(Exception):
    """The files are not those that the session said."""


def hash_of(files: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for path, content in sorted(files.items()):
        found.update(f"{len(path.encode())} {path} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def parts_of(files: Mapping[str, bytes]) -> tuple[Rooms, ...]:
    texts = {path: content.decode() for path, content in files.items()}
    packed = zlib.compress(json.dumps(texts).encode())
    cut = [packed[i : i + _PART_BYTES] for i in range(0, len(packed), _PART_BYTES)]
    name = hash_of(files)
    return tuple(
        Rooms(hash=name, part=base64.b64encode(part).decode(), left=len(cut) - 1 - index)
        for index, part in enumerate(cut)
    )


class Unpacking:
    """Parts as they come, and the folder that the files are written into at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packed = bytearray()

    def add(self, rooms: Rooms) -> str:
        """After the last part the hash of what was written, else empty. Raises RoomsError."""
        try:
            self._packed += base64.b64decode(rooms.part, validate=True)
        except ValueError as error:
            raise RoomsError("a part is not base64") from error
        if len(self._packed) > _MOST_BYTES:
            raise RoomsError(f"more than {_MOST_BYTES} bytes")
        if rooms.left:
            return ""
        files = _unpacked(bytes(self._packed))
        found = hash_of(files)
        if found != rooms.hash:
            raise RoomsError(f"their hash is {found}, and not {rooms.hash[:80]}")
        try:
            for path, content in files.items():
                self._write(path, content)
        except OSError as error:
            raise RoomsError(f"they cannot be written: {error.strerror or error}") from error
        return found

    def _write(self, path: str, content: bytes) -> None:
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)


def _unpacked(packed: bytes) -> dict[str, bytes]:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, _MOST_BYTES)
        texts = json.loads(text) if unpacking.eof else None
    except (zlib.error, ValueError, RecursionError) as error:
        raise RoomsError(f"they cannot be unpacked: {error}") from error
    if not isinstance(texts, dict) or not all(isinstance(one, str) for one in texts.values()):
        raise RoomsError("they cannot be unpacked: no files")
    for path in texts:
        _check_path(path)
    try:
        return {path: text.encode() for path, text in texts.items()}
    except UnicodeEncodeError as error:
        raise RoomsError(f"they cannot be unpacked: {error.reason}") from error


def _check_path(path: str) -> None:
    """Raise RoomsError for a path that is not below the folder, or no file of Python's."""
    parts = PurePosixPath(path)
    strange = parts.is_absolute() or ".." in parts.parts or str(parts) != path
    if strange or not path.isprintable() or parts.suffix != ".py":
        raise RoomsError(f"{path[:80]!r} is no path of a file of busbw")
