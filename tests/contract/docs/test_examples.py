"""Files in `examples/` that are no JAX programs: the pages and commands have the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.docs.pages import ROOT, blocks
from tests.helpers.command_line import asked_here


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("slurm.sh", "#!/bin/bash"),
        ("slurm-nightly.sh", "#!/usr/bin/env bash"),
        ("kubernetes.yaml", "scheduler=tcp:"),
    ],
)
def test_the_documentation_of_hosts_shows_the_same_commands_as_the_files_in_examples(
    name: str, begin: str
) -> None:
    page = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    (commands,) = (block for block in blocks(page) if block[0][1].startswith(begin))
    example = (ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()
    lines = [line.strip() for _, line in commands]
    assert [line.strip() for line in example[-len(lines) :]] == lines


def test_the_example_of_a_nightly_workflow_equals_the_workflow_that_busbw_init_writes(
    tmp_path: Path,
) -> None:
    assert asked_here("init", tmp_path, "--device=tpu").code == 0
    written = (tmp_path / ".github" / "workflows" / "busbw.yml").read_bytes()
    assert written == (ROOT / "examples" / "nightly.yml").read_bytes()
