"""Attacks on what is stored: baselines, histories, and files beside them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.plugin.folder import Folder

from .attack import Attack, baseline, edited, written


def _entry(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["entries"][0]
    return found


def _times(value: object) -> Attack:
    def change(document: dict[str, Any]) -> None:
        (at,) = document["sessions"]
        _entry(document)["times_us"][at] = value

    return edited(change)


def _key(name: str, value: object) -> Attack:
    return edited(lambda document: _entry(document).update({name: value}))


BASELINES = {
    "times NaN": _times([float("nan")] * 3),
    "times infinite": _times([float("inf")] * 3),
    "times 0": _times([0.0] * 3),
    "times below 0": _times([-1.0] * 3),
    "times huge": _times([1e300] * 3),
    "times words": _times(["soon"]),
    "times none": _times([]),
    "times true": _times([True]),
    "times one number": _times(7.0),
    "pin 0": _key("pinned_us", 0),
    "pin NaN": _key("pinned_us", float("nan")),
    "pin a word": _key("pinned_us", "x"),
    "out of memory and a time": _key("out_of_memory", "2026-01-31T03:00:00Z"),
    "a session of none": _key("times_us", {"2026-01-31T03:00:00Z": [1.0]}),
    "a key more": _key("allowed", True),
    "dtype another": _key("dtype", "float63"),
    "version 0": edited(lambda document: document.update(version=0)),
    "version true": edited(lambda document: document.update(version=True)),
    "document another": edited(lambda document: document.update(document="busbw record")),
    "document missing": edited(lambda document: document.pop("document")),
    "entries twice": edited(lambda document: document["entries"].extend(document["entries"])),
    "entries a word": edited(lambda document: document.update(entries="all")),
    "byte order mark": baseline(lambda text: "\ufeff" + text),
    "half": baseline(lambda text: text[: len(text) // 2]),
    "empty": baseline(lambda text: ""),
    "null": baseline(lambda text: "null"),
    "deep": baseline(lambda text: "[" * 100_000),
    "NUL": baseline(lambda text: "\0" * 100),
    "a conflict of merging": baseline(lambda text: f"<<<<<<< HEAD\n{text}"),
}


def _history(change: Callable[[bytes], bytes]) -> Attack:
    def do(folder: Folder) -> None:
        path = written(folder, "history")
        path.write_bytes(change(path.read_bytes()))

    return Attack(options=("--history=history",), do=do, codes=(1, 4))


HISTORIES = {
    "no newline at the end": _history(lambda lines: lines.rstrip(b"\n")),
    "half a line at the end": _history(lambda lines: lines + b'{"half'),
    "junk": _history(lambda lines: b"junk" * 100),
    "junk before": _history(lambda lines: b"junk\n" + lines),
    "lines joined by blanks": _history(lambda lines: lines.replace(b"\n", b" ")),
    "CRLF": _history(lambda lines: lines.replace(b"\n", b"\r\n")),
    "NaN in a line": _history(lambda lines: lines.replace(b'"times_us":[', b'"times_us":[NaN,')),
    "NUL at the end": _history(lambda lines: lines + b"\0" * 50),
    "empty lines": _history(lambda lines: b"\n\n" + lines + b"\n\n"),
    "another version": _history(lambda lines: lines.replace(b'"version":1', b'"version":99')),
}


def _device(folder: Folder) -> None:
    path = written(folder, "baselines")
    path.unlink()
    path.symlink_to("/dev/zero")


def _read_only(folder: Folder) -> None:
    written(folder, "baselines").chmod(0o000)
    folder.without_root()


def _moved(folder: Folder) -> None:
    """Whoever requires baselines is told that there is none."""
    path = written(folder, "baselines")
    shutil.move(path, path.with_suffix(".JSON"))


def _left(folder: Folder) -> None:
    path = written(folder, "baselines")
    shutil.copy(path, f"{path}.00000000.new")


def _accepted(folder: Folder) -> None:
    """The baseline of another number of ranks, which today has not."""
    path = written(folder, "baselines")
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"environment": {}}))


FILES = {
    "the file is a device": Attack(do=_device, codes=(1, 4)),
    "the file cannot be read": Attack(do=_read_only, codes=(1, 4)),
    "the file is renamed": Attack(do=_moved, options=("--require-baselines",), codes=(1, 4)),
    "the folder is gone": Attack(
        do=lambda folder: shutil.rmtree(folder.path / "baselines"),
        options=("--require-baselines",),
        codes=(1, 4),
    ),
    "no environment": Attack(do=_accepted, codes=(1, 4)),
    "a killed writer's file": Attack(do=_left, codes=(1,)),
    "the disk is full": Attack(
        do=lambda folder: folder.fill_disk(),
        options=("--history=history", "--results=full.json"),
        codes=(1, 3),
    ),
    "results over a baseline": Attack(
        do=lambda folder: Path(folder.path / "over.json").symlink_to(written(folder, "baselines")),
        options=("--results=over.json",),
        codes=(1, 4),
    ),
}
