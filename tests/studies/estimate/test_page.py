"""What a step should cost as a table, a document and a figure."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

from busbw.studies.estimate.answer import Estimated, Estimates
from busbw.studies.estimate.cost import Level, Link
from busbw.studies.estimate.page import document, figure, lines
from busbw.studies.estimate.question import Question, TrainingStep

SVG = "{http://www.w3.org/2000/svg}"
RING = Estimated(
    method="ring all-reduce",
    ranks=4,
    hosts=1,
    traffic_bytes=830.04e6,
    communication_s=6.64,
    bottleneck="intra: 1gbe",
    steps=6,
    step_s=7.19,
    efficiency=0.0765,
    wanted_bytes_per_s=13582.4e6,
)
TREE = replace(RING, method="tree all-reduce", step_s=14.38, wanted_bytes_per_s=None)
STEP = TrainingStep(
    name="vgg-16",
    payload_bytes=553.36e6,
    parameters=138_340_000,
    dtype="float32",
    buckets=(1.0,) * 22,
    compute_s=0.55,
    overlap=0.5,
)
ASKED = Question(
    step=STEP,
    ranks=4,
    hosts=(1,),
    wanted_efficiency=0.9,
    links={Level.INTRA: Link(name="1gbe", bytes_per_s=125e6, latency_s=5e-6, full_duplex=False)},
)


def _text(rows: list[Estimated], step: TrainingStep = STEP, notes: tuple[str, ...] = ()) -> str:
    asked = replace(ASKED, step=step, wanted_efficiency=0.9 if step.compute_s else None)
    return "\n".join(lines(asked, Estimates(rows=rows, notes=list(notes))))


def _figure(rows: list[Estimated], step: TrainingStep = STEP) -> str:
    return figure(replace(ASKED, step=step), Estimates(rows=rows))


def test_the_table_states_units_and_shows_each_method() -> None:
    text = _text([RING, TREE], notes=("left out: something",))
    assert "553.36 MB of gradients, 138340000 parameters in float32, in 22 buckets" in text
    assert "MB is 10^6 bytes" in text
    assert "550 ms a step, 50 % of it beside communication" in text
    assert "adam 16 (2.21 GB)" in text
    assert "inside a host: 1gbe, 125 MB/s both directions together, 5 us a step" in text
    ring, tree = (line for line in text.splitlines() if "all-reduce" in line)
    for words in ("830.04", "6.64 s", "7.19 s", "0.0765", "intra: 1gbe; 13582 MB/s"):
        assert words in ring
    assert tree.endswith("no bandwidth suffices")
    assert text.endswith("note: left out: something")


def test_less_than_a_megabyte_is_not_shown_as_nothing() -> None:
    text = _text([replace(RING, traffic_bytes=6144.0)], replace(STEP, payload_bytes=4096))
    assert "0.0041 MB of gradients" in text
    assert "0.00614" in text


def test_what_was_not_asked_for_is_not_shown() -> None:
    bare = replace(STEP, parameters=None, buckets=(), compute_s=None)
    row = replace(RING, step_s=None, efficiency=None, wanted_bytes_per_s=None)
    text = _text([row], bare)
    for words in ("parameters", "buckets", "computing", "memory", "suffices", "needs", "note"):
        assert words not in text


def test_the_document_has_every_field_and_is_json() -> None:
    found = json.loads(json.dumps(document(ASKED, Estimates(rows=[RING]))))
    assert found["schema"] == 1
    assert found["links"][0]["bytes_per_s"] == 125e6
    (row,) = found["estimates"]
    assert (row["method"], row["step_s"], row["efficiency"]) == ("ring all-reduce", 7.19, 0.0765)
    assert set(row) == set(Estimated.__dataclass_fields__)


def _widths(drawn: str, colour: str) -> list[float]:
    bars = [one for one in ElementTree.fromstring(drawn).iter(f"{SVG}rect")]
    return [
        float(one.attrib["width"])
        for one in bars
        if one.attrib["fill"] == colour and one.attrib["height"] == "16"
    ]


def test_bars_are_as_long_as_their_times() -> None:
    drawn = _figure([RING, TREE])
    computing, communication = _widths(drawn, "#4c78a8"), _widths(drawn, "#f58518")
    assert computing[0] == computing[1]
    whole = [one + other for one, other in zip(computing, communication)]
    assert abs(whole[1] / whole[0] - 2) < 0.01
    assert abs(computing[0] / whole[0] - 0.55 / 7.19) < 0.01


def test_without_computing_the_bars_are_communication_alone() -> None:
    row = replace(RING, step_s=None, efficiency=None)
    drawn = _figure([row], replace(STEP, compute_s=None))
    assert _widths(drawn, "#4c78a8") == []
    assert len(_widths(drawn, "#f58518")) == 1


def test_names_cannot_break_the_figure() -> None:
    drawn = _figure([RING], replace(STEP, name="<a & b>"))
    words = [one.text or "" for one in ElementTree.fromstring(drawn).iter(f"{SVG}text")]
    assert any(one.startswith("<a & b>") for one in words)
