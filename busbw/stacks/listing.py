"""Run by an interpreter of its own, as a file: prints what is installed there, as JSON.

Standard library only, Python 3.10. Of each distribution: name, version, what it asks for, where it
came from, and a hash of the files that a wheel brought, by which the wheel can be told from others
of the same version.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import json
import platform
import sys
import sysconfig

# Written by the installer, or changed by it: not part of what the wheel brought.
_OF_INSTALLER = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")


def record_hash(record: str) -> str:
    """A hash of what a RECORD says of the files below the package folder.

    The RECORD of a wheel and that of its installed files have the same hash.
    """
    rows = [row for row in csv.reader(record.splitlines()) if len(row) == 3]
    found = [(_installed(path), sha, size) for path, sha, size in rows]
    kept = sorted(f"{path},{sha},{size}" for path, sha, size in found if _is_kept(path))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def _installed(path: str) -> str:
    """Where a file of a wheel is installed: what ``NAME.data`` has for the package folder moves."""
    first, _, rest = path.partition("/")
    scheme, _, inner = rest.partition("/")
    return inner if first.endswith(".data") and scheme in ("purelib", "platlib") else path


def _is_kept(path: str) -> bool:
    first, _, rest = path.partition("/")
    if first in ("..", "") or first.endswith(".data") or path.endswith(".pyc"):
        return False
    return not (first.endswith(".dist-info") and rest in _OF_INSTALLER)


def _distribution(found: importlib.metadata.Distribution) -> dict[str, object]:
    record, origin = found.read_text("RECORD"), found.read_text("direct_url.json")
    return {
        "name": found.metadata["Name"],
        "version": found.version,
        "requires": found.requires or [],
        "extras": found.metadata.get_all("Provides-Extra") or [],
        "origin": json.loads(origin) if origin else None,
        "installer": (found.read_text("INSTALLER") or "").strip(),
        "record": record_hash(record) if record else "",
    }


def main() -> None:
    """Print the document."""
    json.dump(
        {
            "implementation": platform.python_implementation(),
            "python": platform.python_version(),
            "platform": sysconfig.get_platform(),
            "distributions": [
                _distribution(one)
                for one in importlib.metadata.distributions()
                if one.metadata["Name"]
            ],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
