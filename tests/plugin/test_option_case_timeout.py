"""--case-timeout: a case that hangs costs its own deadline and nothing else."""

from __future__ import annotations

import re

from .folder import Folder


def test_a_case_that_hangs_fails_alone_with_its_stack(folder: Folder) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "hang"}])
    ran = folder.run("--payloads=1K:4K", "--case-timeout=0.7", exit_code=1)
    assert ran.outcomes == {"1K": "NO_BASELINE", "2K": "FAILED", "4K": "NO_BASELINE"}
    failure = ran.case("2K")["failure"]
    assert failure["kind"] == "TIMEOUT"
    assert re.search(r"did not answer within (0\.\d|1) s", failure["message"])
    assert 'fake/backend.py", line' in failure["log"]
