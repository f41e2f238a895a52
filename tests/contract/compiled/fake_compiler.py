"""Small sessions that compile with the fake compiler, and what they stored. No test lives here."""

from __future__ import annotations

import json

from tests.helpers.session_folder import Folder, Ran

TOPOLOGY = ("--topology=v5e:2x4", "--compile-cache=none")


def script(folder: Folder, *cases: dict[str, object], **fields: object) -> None:
    """Set what the fake compiler does from now on."""
    folder.environment.setenv("BUSBW_FAKE_COMPILER", json.dumps({"cases": cases, **fields}))


def compiled(folder: Folder, *options: str, exit_code: int) -> Ran:
    """Run a small session with the fake compiler."""
    usual = [] if any(option.startswith("--topology") for option in options) else list(TOPOLOGY)
    usual += (
        [] if any(option.startswith("--program") for option in options) else ["--payloads=1K,1M"]
    )
    return folder.pytest(
        *("perf", "--frameworks=fake", "-p", "no:cacheprovider"),
        *usual,
        *options,
        exit_code=exit_code,
    )


def outcomes(ran: Ran) -> dict[str, str]:
    assert ran.results is not None, ran.text
    return {case["id"]: case["outcome"] for case in ran.results["cases"]}


def stored(folder: Folder) -> Folder:
    compiled(folder, "--update-baselines=all", exit_code=0)
    return folder
