"""--dtypes: each is a case of its own, with its own line in the baseline."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("text", ["float64", "float8", "float128", "int8", "int64", "bfloat8"])
def test_a_dtype_of_another_width_is_no_slip_of_one_that_there_is(
    folder: Folder, text: str
) -> None:
    said = folder.run(f"--dtypes={text}", exit_code=4).sentence
    assert f"'{text}'; accepted are float32, bfloat16, float16, int32" in said


@pytest.mark.parametrize(
    ("text", "meant"),
    [("bfloat1", "bfloat16"), ("float3", "float32"), ("flaot16", "float16"), ("itn", "int32")],
)
def test_a_slip_is_helped(folder: Folder, text: str, meant: str) -> None:
    said = folder.run(f"--dtypes={text}", exit_code=4).sentence
    assert f"did you mean '{meant}'?" in said
