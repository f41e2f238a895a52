"""The first that runs on a host that ssh reaches: it reads what an agent needs, and becomes one.

ssh starts `FIRST` there, which reads this file's text, and this reads files, secret and variables.
All of it comes over stdin, so that nothing of busbw has to be installed, no command line has the
secret, and nothing is written to a disk. Imports nothing of ours before it has the files; Python
3.7 can read it, so that one that is too old says so.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from types import ModuleType

# Reads one line, not a byte more, and runs the text in it.
FIRST = 'import json,os;exec(json.loads(b"".join(iter(lambda:os.read(0,1),b"\\n"))))'

_OLDEST = (3, 11)


class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds modules in texts by path, such as ``busbw/wire.py``."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        found = self._path(fullname)
        if not found:
            return None
        is_package = self.is_package(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, origin=found, is_package=is_package)

    def get_source(self, fullname: str) -> str:
        return self._texts[self._path(fullname)]

    def is_package(self, fullname: str) -> bool:
        return self._path(fullname).endswith("/__init__.py")

    def _path(self, fullname: str) -> str:
        base = fullname.replace(".", "/")
        return next((p for p in (base + "/__init__.py", base + ".py") if p in self._texts), "")


def pack(given: Mapping[str, object]) -> bytes:
    """What the session sends first: this file, and `files`, `environment` and what an agent is."""
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    # Quickly: there may be hundreds of agents.
    packed = zlib.compress(json.dumps(given).encode(), 1)
    return json.dumps(text).encode() + b"\n%d\n" % len(packed) + packed


def main() -> int:
    if sys.version_info < _OLDEST:
        print(
            "Python {}.{} is too old: expected 3.11 or newer".format(*sys.version_info),
            file=sys.stderr,
        )
        return 1
    count = int(b"".join(iter(lambda: _exactly(1), b"\n")))
    given = json.loads(zlib.decompress(_exactly(count)))
    os.environ.update(given.pop("environment"))
    sys.meta_path.insert(0, Sources(given.pop("files")))
    from busbw.hosts.serve import take_part_over_stdio

    return take_part_over_stdio(**given)


def _exactly(count: int) -> bytes:
    parts = []
    while count:
        part = os.read(0, count)
        if not part:
            sys.exit("the session ended before it had sent all that an agent needs")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main())
