"""--dtypes: each is a case of its own, with its own line in the baseline."""

from __future__ import annotations

from .folder import Folder


def test_every_dtype_is_measured_and_stored_by_its_name(folder: Folder) -> None:
    ran = folder.updated("--dtypes=float32,bfloat16,int32")
    assert ran.results is not None
    assert [c["case"]["dtype"] for c in ran.results["cases"]] == ["float32", "bfloat16", "int32"]
    (path,) = folder.baseline_files
    assert path.read_text().count('"payload": "1M"') == 3
