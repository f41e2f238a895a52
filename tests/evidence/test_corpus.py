"""Recordings as files: nothing is lost but digits, and what is no evidence is refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw import wire
from evidence import corpus
from evidence.corpus import CorpusError, First, Injection, Kind, RecordedSession, Side

from . import synthetic


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"quiet{corpus.SUFFIX}"


def test_sessions_come_back_as_they_were_appended_up_to_four_digits(path: Path) -> None:
    sessions = (synthetic.session(1), synthetic.session(2, share=0.05))
    for session in sessions:
        corpus.append(session, path)
    assert corpus.read_file(path) == tuple(corpus.rounded(session) for session in sessions)
    assert corpus.rounded(sessions[0]) != sessions[0]


def test_times_keep_four_significant_digits() -> None:
    session = synthetic.session(1)
    side = Side(samples_s=(1.23456e-4,) * 2, anchors_s=(98765.4,))
    launch = replace(session.launches[0], reference=side, candidate=side)
    found = corpus.rounded(replace(session, launches=(launch,))).launches[0].candidate
    assert found == Side(samples_s=(1.235e-4,) * 2, anchors_s=(98770.0,))


def test_a_folder_is_read_oldest_first_whatever_its_files_are_called(tmp_path: Path) -> None:
    for number, name in ((2, "a"), (3, "b"), (1, "c")):
        corpus.append(synthetic.session(number), tmp_path / f"{name}{corpus.SUFFIX}")
    (tmp_path / "README.md").write_text("not a recording")
    dates = [session.recorded for session in corpus.read(tmp_path)]
    assert len(dates) == 3
    assert dates == sorted(dates)


def test_a_folder_without_recordings_is_an_empty_corpus(tmp_path: Path) -> None:
    assert corpus.read(tmp_path) == ()


def test_a_session_is_one_line_of_json_with_the_documented_keys(path: Path) -> None:
    corpus.append(synthetic.session(1, share=0.05, launches=1, payloads=(1024,)), path)
    (line,) = gzip.decompress(path.read_bytes()).decode().splitlines()
    document = json.loads(line)
    assert set(document) == set(RecordedSession.__dataclass_fields__)
    assert document["kind"] == "injected"
    assert document["injection"] == {"kind": "delay", "share": 0.05, "payload_bytes": None}
    assert document["launches"][0]["first"] == "reference"
    assert set(document["launches"][0]["candidate"]) == {"samples_s", "anchors_s"}


def test_the_same_session_twice_is_refused_and_the_file_left_as_it_was(path: Path) -> None:
    corpus.append(synthetic.session(1), path)
    before = path.read_bytes()
    with pytest.raises(CorpusError, match="already there"):
        corpus.append(synthetic.session(1), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_same_session_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        corpus.append(synthetic.session(1), tmp_path / f"{name}{corpus.SUFFIX}")
    with pytest.raises(CorpusError, match="more than once"):
        corpus.read(tmp_path)


def test_another_file_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="ends in"):
        corpus.append(synthetic.session(1), tmp_path / "quiet.json")


def test_a_file_that_was_cut_off_is_refused(path: Path) -> None:
    corpus.append(synthetic.session(1), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorpusError, match=r"quiet\.jsonl\.gz: "):
        corpus.read_file(path)


def test_a_file_whose_bytes_were_changed_is_refused(path: Path) -> None:
    corpus.append(synthetic.session(1), path)
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes(255 - byte for byte in content[20:]))
    with pytest.raises(CorpusError, match=r"quiet\.jsonl\.gz: "):
        corpus.read_file(path)


def test_a_line_of_brackets_is_refused_with_its_number(path: Path) -> None:
    path.write_bytes(gzip.compress(b"[" * 200_000))
    with pytest.raises(CorpusError, match="line 1: lists and objects are nested too deeply"):
        corpus.read_file(path)


def _changed(**changes: Any) -> bytes:
    document = wire.to_json(synthetic.session(1, launches=1, payloads=(1024,)))
    return gzip.compress(json.dumps({**document, **changes}).encode())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extra": 1}, r"session\.extra: unknown key"),
        ({"ranks": "4"}, r"session\.ranks: expected a whole number"),
        ({"kind": "ab"}, r"session\.kind: expected one of aa, injected"),
        ({"recorded": "yesterday"}, "recorded: Invalid isoformat"),
        ({"recorded": "2026-01-02T03:04:05"}, "no time zone"),
        ({"launches": []}, "no launches"),
        ({"kind": "injected"}, "kind is injected and injection is None"),
    ],
)
def test_what_is_not_as_documented_is_refused_with_file_and_line(
    path: Path, changes: dict[str, Any], message: str
) -> None:
    path.write_bytes(_changed(**changes))
    with pytest.raises(CorpusError, match=rf"quiet\.jsonl\.gz, line 1: .*{message}"):
        corpus.read_file(path)


def test_a_line_that_is_not_json_is_refused_with_its_number(path: Path) -> None:
    corpus.append(synthetic.session(1), path)
    path.write_bytes(path.read_bytes() + gzip.compress(b"{"))
    with pytest.raises(CorpusError, match="line 2: "):
        corpus.read_file(path)


def test_a_launch_without_one_of_the_payloads_is_refused(path: Path) -> None:
    session = synthetic.session(1)
    with pytest.raises(CorpusError, match="launch 8 has payload 16777216 0 times"):
        corpus.append(replace(session, launches=session.launches[:-1]), path)
    assert not path.exists()


@pytest.mark.parametrize("samples_s", [(), (1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, float("inf"))])
def test_sides_with_unequal_or_impossible_samples_are_refused(
    path: Path, samples_s: tuple[float, ...]
) -> None:
    session = synthetic.session(1, launches=1, payloads=(1024,), samples=2)
    launch = replace(session.launches[0], candidate=Side(samples_s=samples_s))
    with pytest.raises(CorpusError, match="launch 1, payload 1024"):
        corpus.append(replace(session, launches=(launch,)), path)


def test_an_injection_in_an_unchanged_session_is_refused(path: Path) -> None:
    session = replace(synthetic.session(1), injection=Injection(kind="delay", share=0.1))
    assert session.kind is Kind.AA
    with pytest.raises(CorpusError, match="kind is aa"):
        corpus.append(session, path)


def test_exchanging_the_sides_twice_changes_nothing() -> None:
    launch = synthetic.session(1).launches[0]
    exchanged = launch.exchanged()
    assert (exchanged.reference, exchanged.candidate) == (launch.candidate, launch.reference)
    assert (launch.first, exchanged.first) == (First.REFERENCE, First.CANDIDATE)
    assert exchanged.exchanged() == launch


def test_a_launch_pair_has_the_ratio_of_each_pair_of_samples() -> None:
    launch = replace(
        synthetic.session(1).launches[0],
        reference=Side(samples_s=(1.0, 2.0)),
        candidate=Side(samples_s=(1.5, 1.0)),
    )
    assert launch.ratios == (1.5, 0.5)
    assert launch.exchanged().ratios == (1 / 1.5, 2.0)


def test_a_side_derives_its_times_from_its_samples() -> None:
    side = Side(samples_s=(5.0, 1.0, 3.0, 2.0, 4.0))
    assert (side.launch_time_s, side.median_s, side.mean_s, side.least_s) == (2.0, 3.0, 3.0, 1.0)
