"""Recordings as files: what is no evidence is refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw import wire
from evidence import corpus
from evidence.corpus import CorpusError, Injection, Side

from . import synthetic


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"quiet{corpus.SUFFIX}"


def test_a_folder_is_read_oldest_first(tmp_path: Path) -> None:
    sessions = [synthetic.session(1), synthetic.session(2, share=0.05), synthetic.session(3)]
    for session, name in zip(sessions, "bca"):
        synthetic.write(tmp_path / f"{name}{corpus.SUFFIX}", session)
    (tmp_path / "README.md").write_text("not a recording")
    assert corpus.read(tmp_path) == tuple(sessions)


@pytest.mark.slow
def test_the_recorded_sessions_are_read_whole(path: Path) -> None:
    synthetic.write(path, *corpus.read())
    held = (corpus.FOLDER / "cpu.jsonl.gz").read_bytes()
    found, before = (
        sorted(json.dumps(json.loads(line)) for line in gzip.decompress(one).splitlines())
        for one in (path.read_bytes(), held)
    )
    assert found == before


def test_the_same_session_twice_is_refused(path: Path) -> None:
    synthetic.write(path, synthetic.session(1))
    (path.parent / f"other{corpus.SUFFIX}").write_bytes(path.read_bytes())
    with pytest.raises(CorpusError, match="more than once"):
        corpus.read(path.parent)


@pytest.mark.parametrize("damage", [lambda of: of[:-20], lambda of: of[:20] + bytes(len(of))])
def test_a_damaged_file_is_refused(path: Path, damage: Any) -> None:
    synthetic.write(path, synthetic.session(1))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorpusError, match=r"quiet\.jsonl\.gz: "):
        corpus.read(path.parent)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extra": 1}, r"session\.extra: unknown key"),
        ({"ranks": "4"}, r"session\.ranks: expected a whole number"),
        ({"recorded": "yesterday"}, "recorded: Invalid isoformat"),
        ({"recorded": "2026-01-02T03:04:05"}, "no time zone"),
        ({"launches": []}, "no launches"),
        ({"kind": "injected"}, "kind is injected and injection is None"),
    ],
)
def test_what_is_not_as_documented_is_refused_with_file_and_line(
    path: Path, changes: dict[str, Any], message: str
) -> None:
    document = wire.to_json(synthetic.session(1, launches=1, payloads=(1024,)))
    path.write_bytes(gzip.compress(json.dumps({**document, **changes}).encode()))
    with pytest.raises(CorpusError, match=rf"quiet\.jsonl\.gz, line 1: .*{message}"):
        corpus.read(path.parent)


def test_a_launch_without_one_of_the_payloads_is_refused(path: Path) -> None:
    session = synthetic.session(1)
    synthetic.write(path, replace(session, launches=session.launches[:-1]))
    with pytest.raises(CorpusError, match="launch 8 has payload 16777216 0 times"):
        corpus.read(path.parent)


@pytest.mark.parametrize("sample_s", [None, 0.0, -1.0])
def test_sides_with_unequal_or_impossible_samples_are_refused(
    path: Path, sample_s: float | None
) -> None:
    session = synthetic.session(1, launches=1, payloads=(1024,))
    samples_s = session.launches[0].candidate.samples_s[1:]
    side = Side(samples_s=samples_s if sample_s is None else (*samples_s, sample_s))
    launch = replace(session.launches[0], candidate=side)
    synthetic.write(path, replace(session, launches=(launch,)))
    with pytest.raises(CorpusError, match="launch 1, payload 1024"):
        corpus.read(path.parent)


def test_injections_are_grouped_by_kind_and_share_after_the_unchanged() -> None:
    sessions = synthetic.corpus(2, shares=(0.3, 0.05), each=2)
    groups = corpus.by_injection(sessions)
    delays = [Injection(kind="delay", share=share) for share in (0.05, 0.3)]
    assert list(groups) == [None, *delays]
    assert groups[delays[0]] == [*sessions[4:6]]
