"""Files in `examples/`: the pages and commands have the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.docs.pages import ROOT, blocks
from tests.helpers.command_line import asked_here


@pytest.mark.parametrize(
    ("name", "page_name", "begin"),
    [
        ("slurm.sh", "hosts.md", "#!/bin/bash"),
        ("slurm-nightly.sh", "hosts.md", "#!/usr/bin/env bash"),
        ("kubernetes.yaml", "hosts.md", "scheduler=tcp:"),
        ("dense_step.py", "programs.md", "import jax"),
    ],
)
def test_the_documentation_shows_the_same_commands_and_programs_as_the_files_in_examples(
    name: str, page_name: str, begin: str
) -> None:
    page = (ROOT / "docs" / page_name).read_text(encoding="utf-8")
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
