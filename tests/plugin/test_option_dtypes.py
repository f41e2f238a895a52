"""--dtypes: each is a case of its own, with its own line in the baseline."""

from __future__ import annotations

from .folder import Folder


def test_every_dtype_is_measured_and_stored_by_its_name(folder: Folder) -> None:
    ran = folder.updated("--dtypes=float32,bfloat16,int32")
    assert ran.results is not None
    assert [c["case"]["dtype"] for c in ran.results["cases"]] == ["float32", "bfloat16", "int32"]
    (path,) = folder.baseline_files
    assert path.read_text().count('"payload": "1M"') == 3


def test_an_unknown_dtype_is_a_usage_error_that_shows_what_there_is(folder: Folder) -> None:
    ran = folder.run("--dtypes=float33", exit_code=4)
    said = "'float33'; did you mean 'float32'? accepted are float32, bfloat16, float16, int32"
    assert said in ran.sentence
