"""Which profiler recordings are in a folder, and what the names of folders say of them.

TensorBoard's layout is `plugins/profile/<time>/<host>.<format>`, one folder for each session: files
by host, hosts by session. Of the payload and the slice, without a rule of the user's, the naming of
the TPU v2 table's project is understood: `mnist_tpuv2n8_bs1024_scale-256` is 1M / 256 on a v2-8.
Looks at names only; reads no file.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.metrics import parse_payload
from busbw.model import MIB

# The one that holds all there is comes first: trace.json.gz ends with the millionth event.
FORMATS = (".xplane.pb", ".trace.json.gz")
_ACCEPTED = " or ".join(f"*{suffix}" for suffix in FORMATS)
# As folders of the TPU v2 table's project are named.
_TPU_V2_NAME = re.compile(r"tpu(?:v2n)?(?P<cores>\d+)a?_bs\d+_(?P<sign>-?)scale(?P<scale>-?\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What several hosts recorded at one time; of each host its files, the best first."""

    folder: Path
    hosts: Mapping[str, Sequence[Path]]

    @property
    def names(self) -> tuple[str, ...]:
        """The folder's names that may say what was recorded, the innermost first.

        A session's folder in TensorBoard's layout bears a time; it and what leads to it say
        nothing of what was measured.
        """
        inner = self.folder
        if inner.parent.name == "profile" and inner.parent.parent.name == "plugins":
            inner = inner.parents[2]
        return tuple(folder.name for folder in (inner, *inner.parents) if folder.name)


def files_in(path: Path, unread: Callable[[Path, str], None]) -> list[Path]:
    """The recordings at or below `path`, and all else that bears the name of one but a folder.

    `unread` is told of `path` where there is nothing, of each folder that cannot be looked into,
    and why.
    """
    if path.is_dir():
        found = sorted(_below(path, unread))
        why = f"no recording in it ({_ACCEPTED})"
    elif os.path.lexists(path):
        found = [path] if _format(path) is not None else []
        why = f"not a recording; accepted is {_ACCEPTED}, or a folder with such"
    else:
        found, why = [], "there is no such file or folder"
    if not found:
        unread(path, why)
    return found


def _below(folder: Path, unread: Callable[[Path, str], None]) -> Iterator[Path]:
    """Folders that links lead to are left out: they may lead back."""

    def noted(error: OSError) -> None:
        unread(Path(error.filename), error.strerror or str(error))

    for name, _, files in os.walk(folder, onerror=noted):
        yield from (path for one in files if _format(path := Path(name, one)) is not None)


def sessions(files: Iterable[Path]) -> list[Session]:
    """Files by session and host; a file that is named twice, or by a link too, counts once."""
    named: dict[str, Path] = {}
    for file in sorted(files):
        # What a link leads to may bear any name.
        named.setdefault(os.path.realpath(file), Path(os.path.realpath(file.parent)) / file.name)
    hosts: dict[Path, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(named.values(), key=_order):
        host = path.name.removesuffix(FORMATS[_order(path)[0]])
        hosts[path.parent][host].append(path)
    return [Session(folder=folder, hosts=hosts[folder]) for folder in sorted(hosts)]


def _format(path: Path) -> int | None:
    """The place of the file's format among those that are read."""
    return next((i for i, suffix in enumerate(FORMATS) if path.name.endswith(suffix)), None)


def _order(path: Path) -> tuple[int, Path]:
    return _format(path) or 0, path


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """The rules of one run of the command."""

    payload_bytes: int | None = None
    payload_from: re.Pattern[str] | None = None
    slice_from: re.Pattern[str] | None = None

    def payload(self, names: Sequence[str]) -> int | None:
        """The payload in bytes; None if no rule says it. Raises ValueError for what is no size."""
        if self.payload_bytes is not None:
            return self.payload_bytes
        if self.payload_from is not None:
            match = _first(self.payload_from, names)
            return parse_payload(match["payload"] or "") if match else None
        match = _first(_TPU_V2_NAME, names)
        return _scaled(match["sign"], int(match["scale"])) if match else None

    def slice(self, names: Sequence[str]) -> str:
        """The slice; "" if no rule says it."""
        if self.slice_from is not None:
            match = _first(self.slice_from, names)
            return (match["slice"] or "") if match else ""
        match = _first(_TPU_V2_NAME, names)
        return f"v2-{match['cores']}" if match else ""


def pattern(text: str, group: str) -> re.Pattern[str]:
    """The regular expression with the named group `group`; raises ValueError for any other."""
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    if group not in compiled.groupindex:
        raise ValueError(f"{text!r} has no group (?P<{group}>...)")
    return compiled


def _first(rule: re.Pattern[str], names: Sequence[str]) -> re.Match[str] | None:
    return next((match for name in names if (match := rule.search(name))), None)


def _scaled(sign: str, scale: int) -> int | None:
    """Scale 16 is 16M; -16, which some folders write before the word, is 1M / 16."""
    if scale == 0:
        return None
    return (MIB // abs(scale) or None) if sign or scale < 0 else scale * MIB
