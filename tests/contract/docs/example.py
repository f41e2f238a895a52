"""The regression in the README: a recorded session, judged and printed as it would be today.

`python -m tests.contract.docs.example` draws `docs/bandwidth.svg` and prints the lines that
README.md shows. The recording, `regression.json.gz` in this folder, is of JAX on two cores of a
CPU: two stacks measured alternately, of which one was slowed down at 1M by `--inject=delay:30%@1M`.
"""

from __future__ import annotations

import copy
import gzip
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw import metrics
from busbw.extensions.page.charts import draw_svg
from busbw.extensions.page.curves import bandwidth_chart, curves_of
from busbw.report.conclusion import conclusion_lines, verdict_tables
from busbw.report.results import Results, read_results
from busbw.report.table import render
from tests.contract.docs.pages import ROOT
from tests.helpers.recorded_sessions import Recorded, sessions
from tests.unit.recorded.replayed import results

PICTURE = ROOT / "docs" / "bandwidth.svg"
_RECORDING = Path(__file__).with_name("regression.json.gz")
_PAYLOADS = metrics.parse_payloads("64K:16M:4")
# Has the form of a session with two stacks; its times are replaced.
_FORM = "in turn on a CPU 1"


def example() -> Results:
    """Return the recorded session as it is judged today."""
    recording = json.loads(gzip.decompress(_RECORDING.read_bytes()))
    (form,) = (recorded for recorded in sessions() if recorded.name == _FORM)
    with tempfile.TemporaryDirectory() as folder:
        document = results(_filled(form, recording), Path(folder))
    session = read_results(json.dumps({**document, "began": recording["recorded"]}))
    assert isinstance(session, Results)
    return session


def _filled(form: Recorded, recording: dict[str, Any]) -> Recorded:
    """Return `form` with the payloads and the times of `recording`."""
    inputs, document = copy.deepcopy(form.inputs), copy.deepcopy(form.results)
    count = len(_PAYLOADS)
    for name in ("specs", "keys", "slice_keys", "cases"):
        inputs[name][:] = [dict(inputs[name][0]) for _ in range(count)]
    document["cases"][:] = [copy.deepcopy(document["cases"][0]) for _ in range(count)]
    for row in (document["environment"]["key"], *inputs["keys"], *inputs["slice_keys"]):
        row["device_kind"] = "AMD EPYC"
    document["environment"]["versions"] = {"jax": recording["versions"]}
    for index, payload_bytes in enumerate(_PAYLOADS):
        case = document["cases"][index]
        for row in (inputs["specs"][index], inputs["cases"][index], case["case"], case["spec"]):
            row["payload_bytes"] = payload_bytes
        pairs = [
            launch for launch in recording["launches"] if launch["payload_bytes"] == payload_bytes
        ]
        for name, side in (("launches", "candidate"), ("reference_launches", "reference")):
            case[name] = [
                {**case[name][0], "launch": f"{number}.jax.{side}", "samples_s": pair[side]}
                for number, pair in enumerate(pairs, 1)
            ]
    return replace(form, inputs=inputs, results=document)


def lines(session: Results) -> list[str]:
    """Return the letters, the table and the answer of the session, as a terminal shows them."""
    return [
        *render("text", *verdict_tables(session.verdicts)),
        *(line.text for line in conclusion_lines(session.verdicts, session.session)),
    ]


def picture(session: Results) -> str:
    """Return what `busbw figure` draws of the session."""
    return draw_svg(bandwidth_chart(curves_of(session)))


if __name__ == "__main__":
    PICTURE.write_text(picture(example()), encoding="utf-8")
    print(*lines(example()), sep="\n")
