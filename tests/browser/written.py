"""Pages of every kind, written by `python -m busbw page` from sessions of the fake back end.

No test lives here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import locks
from busbw.history.files import append
from tests.history import lines, year
from tests.recorded.corpus import sessions

ROOT = Path(__file__).parents[2]
KINDS = (
    *("first", "night", "year", "several", "recorded", "compiled"),
    *("hostile", "hostile-nights"),
)
HOSTILE = (
    '<b class="injected">bold</b>',
    "<script class=injected>alert(1)</script>",
    "</style></title></script><p class=injected>",
    '"><img class=injected src=x.png onerror="alert(1)">',
    "&lt;b&gt; &amp;",
    "javascript:alert(1)",
    "<!-- ]]> --> {{ 7 * 7 }} {% x %}",
)
TIMEOUT_S = 120
_DEVICE = {"device": "tpu", "device_kind": "TPU v5 lite", "ranks": 4, "latency_s": 1e-3}
# What the night meets: slower, faster, new out of memory, a crash.
_MET = [
    {"payload_bytes": 8192, "slower": 1.5},
    {"payload_bytes": 16384, "slower": 0.6},
    {"payload_bytes": 2**20, "then": "out_of_memory"},
    {"payload_bytes": 65536, "then": "kill"},
]


def pages(folder: Path) -> Mapping[str, Path]:
    """Each kind of page, in files below the folder."""
    ground = Ground(folder=folder)
    night = ground.night()
    recorded = _richest(folder / "recorded.json")
    compiled = ground.compiled()
    first = ground.first()
    return {
        "first": first,
        "night": ground.page("night", night),
        "year": ground.page("year", night, f"--history={ground.year()}"),
        "several": ground.page("several", night, recorded, compiled),
        "recorded": ground.page("recorded", recorded),
        "compiled": ground.page("compiled", compiled),
        "hostile": ground.page("hostile", _with_hostile_names(night, folder / "hostile.json")),
        "hostile-nights": ground.page("hostile-nights", *ground.hostile_nights()),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """A folder in which sessions run and pages are written."""

    folder: Path

    def first(self) -> Path:
        """The page that a first session writes itself: nothing to compare with yet."""
        self.session({}, "--payloads=4K", "--launches=1", "--page=first.html")
        return self.folder / "first.html"

    def night(self) -> Path:
        """The results of a session with baselines, in which much is not as it was."""
        options = ("--payloads=1K:1M", "--launches=2")
        self.session(_DEVICE, *options, "--update-baselines")
        met = {**_DEVICE, "cases": _MET}
        self.session(met, *options, "--results=night.json", code=1)
        return self.folder / "night.json"

    def compiled(self) -> Path:
        """The results of a session that compiled, with every outcome."""
        options = ("--topology=v5e:2x4", "--compile-cache=none")
        self.session({}, *options, "--payloads=1K,1M", "--update-baselines=all")
        changed = [
            {"payload_bytes": 2**10, "strategy": "FakeTree"},
            {"payload_bytes": 2**20, "then": "out_of_memory"},
            {"payload_bytes": 2**21, "then": "error"},
        ]
        results = "--results=compiled.json"
        self.session({"cases": changed}, *options, "--payloads=1K,1M,2M,4M", results, code=1)
        return self.folder / "compiled.json"

    def year(self) -> Path:
        """A history of a year, with changes."""
        year.write(self.folder / "year")
        return self.folder / "year"

    def hostile_nights(self) -> tuple[str, str]:
        """Options for a history whose hosts, versions, flags and reasons hold markup."""
        root, reasons = self.folder / "nights", self.folder / "reasons"
        for night in range(30):
            name, version, package, reason, flag, host, _ = HOSTILE
            late = night >= 15
            for one in lines.session(f"{night:016x}", cases=8):
                by = 1.1 if late else 1.0
                hostile = replace(
                    one,
                    at=f"2026-03-{1 + night:02d}T03:00:00Z",
                    times_us=tuple(by * time_us for time_us in one.times_us),
                    versions={package: version if late else name},
                    surroundings={"XLA_FLAGS": flag if late else ""},
                    host=host if late else "vm",
                )
                append(root, lines.KEY, [hostile])
        reasons.mkdir()
        text = f"[[change]]\nsince = 2026-03-16\nreason = {json.dumps(reason)}\n"
        (reasons / "acknowledged.toml").write_text(text)
        return f"--history={root}", f"--baselines={reasons}"

    def page(self, name: str, *words: Path | str) -> Path:
        """The page of these results, with these options."""
        path = self.folder / f"{name}.html"
        self._run(["-m", "busbw", "page", *map(str, words), "-o", str(path)])
        return path

    def session(self, script: Mapping[str, Any], *options: str, code: int = 0) -> None:
        """A session of the fake back end that ends with that exit code."""
        if not (self.folder / "perf").exists():
            ignored = shutil.ignore_patterns("__*")
            shutil.copytree(ROOT / "perf", self.folder / "perf", ignore=ignored)
            shutil.copy(ROOT / "conftest.py", self.folder)
        start = ["-m", "pytest", "perf", "--frameworks=fake", "-p", "no:cacheprovider"]
        # The one is read by the back end that measures, the other by the one that compiles.
        names = ("BUSBW_FAKE", "BUSBW_FAKE_COMPILER")
        self._run([*start, *options], dict.fromkeys(names, json.dumps(script)), code)

    def _run(
        self, words: Sequence[str], variables: Mapping[str, str] | None = None, code: int = 0
    ) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        usual = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        usual.pop("CI", None)
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**usual, "PYTHONPATH": path, locks.MACHINE: str(self.folder), **(variables or {})},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr


def _richest(into: Path) -> Path:
    """The recorded session with the most outcomes, then cases, as a file."""
    found = max(
        (one.results for one in sessions() if not one.is_compiled),
        key=lambda one: (len({case["outcome"] for case in one["cases"]}), len(one["cases"])),
    )
    into.write_text(json.dumps(found))
    return into


def _with_hostile_names(results: Path, into: Path) -> Path:
    """The results with hosts, versions, flags and reasons that hold markup."""
    document = json.loads(results.read_text())
    environment = document["environment"]
    host, version, package, text, flag, note, kind = HOSTILE
    environment["host"] = host
    environment["versions"] = {"fake": {"fake": version, package: "1"}}
    environment["flags"] = {"XLA_FLAGS": flag}
    environment["key"]["device_kind"] = kind
    document["session"]["text"] = text
    for case in document["cases"]:
        case["text"] = f"{text} {case['text']}"
        case["notes"] = [note]
    into.write_text(json.dumps(document))
    return into
