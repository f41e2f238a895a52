"""What `python -m busbw estimate` refuses, and with which sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from .estimates import refused

LINKED = ("--ranks=4", "--bandwidth=1gbe")


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("required", ["--ranks=4", "--bandwidth=1gbe"]),
        ("not allowed with", ["--model=vgg-16", "--parameters=3", *LINKED]),
        ("'-3'", ["--parameters=-3", *LINKED]),
        ("accepted is a number of parameters", ["--parameters=0", *LINKED]),
        ("from 1 to 1e+15", ["--gradient-bytes=1e20MB", *LINKED]),
        ("accepted is bytes with a unit", ["--gradient-bytes=16M", *LINKED]),
        ("accepted is bytes with a unit", ["--gradient-bytes=-5MB", *LINKED]),
        ("'gpt-17'; accepted are resnet-50", ["--model=gpt-17", *LINKED]),
        ("--dtype says nothing", ["--gradient-bytes=5MB", "--dtype=float16", *LINKED]),
        ("from 2 to", ["--parameters=3", "--ranks=1", "--bandwidth=1gbe"]),
        ("from 2 to", ["--parameters=3", "--ranks=1e9", "--bandwidth=1gbe"]),
        ("how many --ranks", ["--parameters=3", "--bandwidth=1gbe"]),
        ("evenly over 3 hosts", ["--parameters=3", *LINKED, "--hosts=3"]),
        ("from 1 to", ["--parameters=3", *LINKED, "--hosts=0"]),
        ("say a link", ["--parameters=3", "--ranks=4"]),
        ("without --intra", ["--parameters=3", *LINKED, "--intra=1gbe"]),
        ("unrecognized arguments: --latency=1us", ["--parameters=3", *LINKED, "--latency=1us"]),
        ("needs --intra", ["--parameters=3", "--ranks=4", "--inter=1gbe"]),
        ("accepted is a rate", ["--parameters=3", "--ranks=4", "--bandwidth=125"]),
        ("accepted is a rate", ["--parameters=3", "--ranks=4", "--bandwidth=-1GB/s"]),
        ("accepted is a rate", ["--parameters=3", "--ranks=4", "--bandwidth=0GB/s"]),
        ("did you mean 'nvlink-1'?", ["--parameters=3", "--ranks=4", "--bandwidth=nvlink-17"]),
        ("names are nvlink-1, nv", ["--parameters=3", "--ranks=4", "--bandwidth=quick"]),
        ("did you mean 'vgg-16'?", ["--model=vgg16", *LINKED]),
        ("accepted is a time", ["--parameters=3", "--ranks=4", "--intra=1gbe,-5us"]),
        ("accepted is a time", ["--parameters=3", *LINKED, "--compute=-1s"]),
        ("from 1e-09 to", ["--parameters=3", *LINKED, "--compute=0s"]),
        ("accepted is a time", ["--parameters=3", *LINKED, "--compute=1e9s"]),
        ("a share, from 0 to 1", ["--parameters=3", *LINKED, "--compute=1s", "--overlap=1.5"]),
        ("--overlap needs --compute", ["--parameters=3", *LINKED, "--overlap=0.5"]),
        ("needs --compute", ["--parameters=3", *LINKED, "--want-efficiency=0.5"]),
        (
            "an efficiency, from 1e-06 to 0.999999",
            ["--parameters=3", *LINKED, "--compute=1s", "--want-efficiency=1"],
        ),
        ("from 1 to", ["--parameters=3", *LINKED, "--servers=0"]),
        ("buckets are absurd", ["--gradient-bytes=1GB", *LINKED, "--bucket=1B"]),
        ("unrecognized arguments: --figure=x.svg", ["--parameters=3", *LINKED, "--figure=x.svg"]),
        ("--curve-case belongs", ["--parameters=3", *LINKED, "--curve-case=jax"]),
        ("without --bandwidth", ["--parameters=3", *LINKED, "--curve=nowhere.json"]),
        ("nowhere.json", ["--parameters=3", "--curve=nowhere.json"]),
    ],
)
def test_what_cannot_be_isrefused_with_a_sentence(says: str, arguments: list[str]) -> None:
    refused(says, *arguments)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "expected an object"),
        ("{}", "expected an object"),
        ('{"w": 3}', "w: expected a list"),
        ('{"w": [2, -1]}', "w: expected a list of whole numbers above 0"),
        ('{"w": [2.5]}', "w: expected a list"),
        ('{"w": [1], "w": [2]}', "occurs twice"),
        ("{", "not JSON"),
        ('{"w": [' + ", ".join(["1" + "0" * 20] * 30) + "]}", "more than 1e+15 parameters"),
    ],
)
def test_shapes_that_are_none_arerefused_by_name(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "shapes.json"
    file.write_text(text)
    refused(f"{file}", f"--shapes={file}", "--ranks=2", "--bandwidth=1gbe")
    refused(says, f"--shapes={file}", "--ranks=2", "--bandwidth=1gbe")
