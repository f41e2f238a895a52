"""--case-timeout: a case that hangs costs its own deadline and nothing else."""

from __future__ import annotations

import re

import pytest

from .folder import Folder


def test_a_case_that_hangs_fails_alone_with_its_stack(folder: Folder) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "hang"}])
    ran = folder.run("--payloads=1K:4K", "--case-timeout=0.7", exit_code=1)
    assert ran.outcomes == {"1K": "NO_BASELINE", "2K": "FAILED", "4K": "NO_BASELINE"}
    failure = ran.case("2K")["failure"]
    assert failure["kind"] == "TIMEOUT"
    assert re.search(r"did not answer within (0\.\d|1) s", failure["message"])
    assert 'fake/backend.py", line' in failure["log"]


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_nonsense_is_a_usage_error(folder: Folder, text: str) -> None:
    ran = folder.run(f"--case-timeout={text}", exit_code=4)
    assert "accepted is a number of seconds above 0" in ran.sentence
