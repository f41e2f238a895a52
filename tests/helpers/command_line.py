"""A command in a process of its own, and folders of synthetic recordings for `trace`.

No test lives here. The recordings of 2019 are as the TPU profiler of that time wrote them: a file
for each host, a process for each core, the collective on the line of XLA's instructions and
again, under another name, on that of TensorFlow's.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.cli import main
from tests.helpers.forked import Forked, Session
from tests.helpers.recordings import complete, packed, process

ROOT = Path(__file__).parents[2]
WARM_UP_US = 5000.0
# A bisection builds up to nine environments; on a busy machine each takes ten seconds.
TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def table(self) -> list[list[str]]:
        """The cells of the tables, with their heads; two spaces or more are between two cells."""
        rows = [re.split(" {2,}", line.strip()) for line in self.out.splitlines()]
        return [cells for cells in rows if len(cells) > 1]

    def refuses(self, *words: str) -> None:
        """Check for a usage error with these words, before any other output."""
        assert (self.code, self.out) == (2, "")
        assert [word for word in words if word not in self.err] == []

    @property
    def errors(self) -> list[str]:
        """The lines on stderr."""
        return self.err.splitlines()

    @property
    def document(self) -> Any:
        """What `--json=-` wrote."""
        return json.loads(self.out)


@functools.cache
def _forked() -> Forked:
    """Return what this process of tests forks its commands from; it ends with this process."""
    return Forked("busbw", ROOT, "-W", "error")


def command(*arguments: str | Path) -> Answer:
    """`python -m busbw`; whatever is said, it is never Python's own stack."""
    assert _forked().fits(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder, name) for name in ("out", "err"))
        session = Session(
            options=[str(argument) for argument in arguments],
            folder=str(ROOT),
            environment=dict(os.environ),
            out=str(out),
            err=str(err),
            timeout_s=TIMEOUT_S,
        )
        answer = Answer(code=_forked().run(session), out=out.read_text(), err=err.read_text())
    assert "Traceback" not in answer.err, answer.err
    return answer


def asked_here(*arguments: str | Path) -> Answer:
    """Run a command in this process, without the second that starting a process takes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ending:
            code = int(ending.code or 0)
    return Answer(code=code, out=out.getvalue(), err=err.getvalue())


def trace(*arguments: str | Path) -> Answer:
    """`trace` over `arguments`, in this process."""
    return asked_here("trace", *arguments)


def of_2019(durations_us: Sequence[Sequence[float]]) -> bytes:
    """Make a host's file: for each core its collectives' durations, after a long first one."""
    rows: list[dict[str, Any]] = []
    for core, times in enumerate(durations_us):
        pid = core + 1
        rows += process(pid, f"/device:TPU:{core}", {1: "Step", 2: "XLA Ops", 3: "TensorFlow Ops"})
        for step, dur in enumerate([WARM_UP_US, *times]):
            ts = step * 10_000.0
            rows.append(complete(str(step), pid=pid, tid=1, ts=ts, dur=9000))
            rows.append(complete("fusion.4", pid=pid, tid=2, ts=ts, dur=20))
            rows.append(complete("cross-replica-sum", pid=pid, tid=2, ts=ts + 30, dur=dur))
            rows.append(complete("CrossReplicaSum", pid=pid, tid=3, ts=ts + 25, dur=dur + 10))
    return packed(rows)


def of_today(durations_us: Sequence[Sequence[float]], **stats: str | int) -> bytes:
    """Make a host's file with the instructions of today's TPUs, all in one call."""
    rows: list[dict[str, Any]] = []
    for device, times in enumerate(durations_us):
        rows += process(device, f"/device:TPU:{device}", {2: "XLA Ops"})
        for index, dur in enumerate([WARM_UP_US, *times]):
            row = complete("all-reduce.1", pid=device, tid=2, ts=1e4 * index, dur=dur, **stats)
            rows.append(row)
    return packed(rows)


def put(folder: Path, session: str = "2019-10-14_15:56:32", **hosts: bytes) -> Path:
    """Files in TensorBoard's layout, such as ``h_xplane``; the folder that was given."""
    inner = folder / "plugins" / "profile" / session
    inner.mkdir(parents=True)
    suffixes = {"chrome": ".trace.json.gz", "xplane": ".xplane.pb"}
    for name, content in hosts.items():
        host, form = name.rsplit("_", 1)
        (inner / f"{host}{suffixes[form]}").write_bytes(content)
    return folder
