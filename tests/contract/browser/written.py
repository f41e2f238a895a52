"""Pages of every kind as files: of made sessions and nights, of a recorded session, and of a year.

No test lives here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from busbw.history.files import Acknowledged
from busbw.model.words import Outcome
from busbw.page.content import Page
from busbw.page.html import html
from busbw.page.nights import machine
from busbw.page.page import page
from busbw.report.reading import read_results
from tests.helpers import build
from tests.helpers.recorded_sessions import sessions
from tests.helpers.results_files import session, verdict
from tests.unit.page import made

HOSTILE = (
    '<b class="injected">bold</b>',
    "<script class=injected>alert(1)</script>",
    "</style></title></script><p class=injected>",
    '"><img class=injected src=x.png onerror="alert(1)">',
    "&lt;b&gt; &amp;",
    "javascript:alert(1)",
    "<!-- ]]> --> {{ 7 * 7 }} {% x %}",
)


def _recorded() -> Page:
    """The recorded session with the most outcomes, then cases."""
    found = max(
        (one.results for one in sessions() if not one.is_compiled),
        key=lambda one: (len({case["outcome"] for case in one["cases"]}), len(one["cases"])),
    )
    return page([read_results(json.dumps(found), "recorded.json")])


def _hostile() -> Page:
    """A session and nights whose hosts, versions, flags and reasons hold markup."""
    host, version, package, text, flag, note, kind = HOSTILE
    found = session(
        verdict(4096, 6.0, notes=(note,), outcome=Outcome.NOISY, text=text),
        verdict(8192, None, notes=(note,), text=text),
        host=host,
        versions={"jax": {"jax": version, package: "1"}},
        flags={"XLA_FLAGS": flag},
        key=build.key(device_kind=kind),
    )
    before: dict[str, Any] = {"versions": {package: host}, "host": "vm"}
    after: dict[str, Any] = {
        "versions": {package: version},
        "host": host,
        "surroundings": {"XLA_FLAGS": flag},
        "times_us": (30.0, 30.1, 30.2),
    }
    nights = [made.night(at, **(after if at >= 8 else before)) for at in range(16)]
    known = Acknowledged(since="2026-01-09", reason=text)
    return page([found], [machine("tpu/4r", nights, [known])])


KINDS: Mapping[str, Callable[[], Page]] = {
    **{name: made.PAGES[name] for name in ("regression", "compiled", "several", "year")},
    "recorded": _recorded,
    "hostile": _hostile,
}


def pages(folder: Path) -> Mapping[str, Path]:
    """Each kind of page, in files below the folder."""
    found = {kind: folder / f"{kind}.html" for kind in KINDS}
    for kind, path in found.items():
        path.write_text(html(KINDS[kind]()), encoding="utf-8")
    return found
