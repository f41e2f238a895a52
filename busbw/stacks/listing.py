"""Run by an interpreter of its own, as a file: prints what is installed there, as JSON.

Standard library only, Python 3.11. A hash of the files that a wheel brought tells the wheel from
others of the same version.
"""

from __future__ import annotations

import csv
import email
import email.message
import hashlib
import importlib.metadata
import json
import platform
import sys
import sysconfig

# Written by the installer, or changed by it: not part of what the wheel brought.
_OF_INSTALLER = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")


def record_hash(record: str) -> str:
    """The same for the RECORD of a wheel and for that of its installed files."""
    rows = [row for row in csv.reader(record.splitlines()) if len(row) == 3]
    moves = ".data/" in record
    found = [(_installed(path) if moves else path, sha, size) for path, sha, size in rows]
    kept = sorted(f"{path},{sha},{size}" for path, sha, size in found if _is_kept(path))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def _installed(path: str) -> str:
    """Where a file of a wheel is installed: what ``NAME.data`` has for the package folder moves."""
    first, _, rest = path.partition("/")
    scheme, _, inner = rest.partition("/")
    return inner if first.endswith(".data") and scheme in ("purelib", "platlib") else path


def _is_kept(path: str) -> bool:
    # Half of them.
    if path.endswith(".pyc"):
        return False
    first, _, rest = path.partition("/")
    if first in ("..", "") or first.endswith(".data"):
        return False
    return not (first.endswith(".dist-info") and rest in _OF_INSTALLER)


def _metadata(found: importlib.metadata.Distribution) -> email.message.Message:
    """The fields; `found.metadata` would read the description as well, and again each time."""
    text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    return email.message_from_string(text.partition("\n\n")[0])


def _requires(found: importlib.metadata.Distribution, metadata: email.message.Message) -> list[str]:
    is_egg = found.read_text("METADATA") is None
    return metadata.get_all("Requires-Dist") or (is_egg and found.requires) or []


def _distribution(
    found: importlib.metadata.Distribution, metadata: email.message.Message
) -> dict[str, object]:
    record, origin = found.read_text("RECORD"), found.read_text("direct_url.json")
    return {
        "name": metadata["Name"],
        "version": metadata["Version"],
        "requires": _requires(found, metadata),
        "extras": metadata.get_all("Provides-Extra") or [],
        "origin": json.loads(origin) if origin else None,
        "installer": (found.read_text("INSTALLER") or "").strip(),
        "record": record_hash(record) if record else "",
    }


def main() -> None:
    json.dump(
        {
            "implementation": platform.python_implementation(),
            "python": platform.python_version(),
            "platform": sysconfig.get_platform(),
            "distributions": [
                _distribution(one, metadata)
                for one in importlib.metadata.distributions()
                if (metadata := _metadata(one))["Name"]
            ],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
