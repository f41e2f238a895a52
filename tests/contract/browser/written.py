"""Pages of every kind as files: of made and recorded sessions, and of a year.

No test lives here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from busbw.extensions.page.page import Chapter, make_chapters, render_html
from busbw.history.files import AcknowledgedChange
from busbw.history.levels import build_machine_history
from busbw.model.words import Outcome
from busbw.report.results import read_results
from tests.helpers import build, recorded_sessions
from tests.helpers.results_files import session, verdict
from tests.unit.extensions.page import made

HOSTILE = (
    '<b class="injected">bold</b>',
    "<script class=injected>alert(1)</script>",
    "</style></title></script><p class=injected>",
    '"><img class=injected src=x.png onerror="alert(1)">',
    "&lt;b&gt; &amp;",
    "javascript:alert(1)",
    "<!-- ]]> --> {{ 7 * 7 }} {% x %}",
)


def _recorded() -> list[Chapter]:
    """Return the page of the recorded session with the most outcomes, then cases."""
    longest = max(
        (recorded.results for recorded in recorded_sessions.sessions() if not recorded.is_compiled),
        key=lambda recorded: (
            len({case["outcome"] for case in recorded["cases"]}),
            len(recorded["cases"]),
        ),
    )
    return make_chapters([read_results(json.dumps(longest))])


def _hostile() -> list[Chapter]:
    """Return a page whose hosts, versions, flags and reasons hold markup."""
    host, version, package, text, flag, note, kind = HOSTILE
    night = session(
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
    sessions = [
        made.session_line(number, **(after if number >= 8 else before)) for number in range(16)
    ]
    acknowledged = AcknowledgedChange(since="2026-01-09", reason=text)
    return make_chapters(
        [night], [build_machine_history("tpu/4r", sessions, acknowledged_changes=[acknowledged])]
    )


KINDS: Mapping[str, Callable[[], list[Chapter]]] = {
    "regression": made.whole_page,
    "compiled": lambda: make_chapters([made.compiled()]),
    "several": lambda: make_chapters([made.regression(), made.compiled()], [made.changed()]),
    "year": lambda: make_chapters([], [made.machine_of_a_year()]),
    "recorded": _recorded,
    "hostile": _hostile,
}


def pages(folder: Path) -> Mapping[str, Path]:
    """Write each kind of page into files below the folder."""
    paths = {kind: folder / f"{kind}.html" for kind in KINDS}
    for kind, path in paths.items():
        path.write_text(render_html(KINDS[kind]()), encoding="utf-8")
    return paths
