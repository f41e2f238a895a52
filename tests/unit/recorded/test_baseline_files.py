"""Recorded baseline files are read, and written again byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.baselines import document
from busbw.extensions.compiled import results
from tests.helpers.recorded_sessions import baseline_files

FILES = [
    pytest.param(path, text, id=f"{number}-{path}")
    for number, (path, text) in enumerate(baseline_files())
]


@pytest.mark.parametrize(("path", "text"), FILES)
def test_a_recorded_baseline_file_is_unchanged_after_it_is_read_and_written(
    path: str, text: str, tmp_path: Path
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    if Path(path).parts[0] == results.BASELINE_FOLDER:
        kind, name = results.CompiledBaselineFile, "busbw compiled baselines"
        stored, (case, *_) = document.read_stored_file(file, kind, name)
        programs = results.read_stored_programs(file, stored.environment, case)
        assert results.baseline_file_text(stored.environment, programs) == text
    else:
        assert document.baselines_text(document.read_baselines(file)) == text
