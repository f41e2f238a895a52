"""The frame: an answer printed, as JSON, or put into its own part of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.studies import parameter_server, prediction, tpu_v2
from tests.commands.asked import Answer, asked_here
from tests.commands.test_prediction import _session as session

ROOT = Path(__file__).parents[2]
BEGIN = "<!-- Written by `python -m busbw prediction`, not by hand. -->"


def prediction_of(folder: Path, document: Path) -> Answer:
    path = folder / "a.json"
    return asked_here("prediction", session(path, 1.0), f"--document={document}")


def test_a_page_takes_the_place_of_the_earlier_one_and_leaves_the_rest(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    assert prediction_of(tmp_path, document).code == 0
    page = document.read_text()
    assert page.startswith(f"{BEGIN}\n\n")
    document.write_text(f"# Mine\n\n{page.replace('agree', 'differ')}\nAlso mine.\n")
    assert prediction_of(tmp_path, document).code == 0
    assert document.read_text() == f"# Mine\n\n{page}\nAlso mine.\n"


@pytest.mark.parametrize("mark", ["", BEGIN])
def test_a_file_without_such_a_part_is_not_written(tmp_path: Path, mark: str) -> None:
    document = tmp_path / "page.md"
    document.write_text(f"# Mine\n{mark}\n")
    answer = prediction_of(tmp_path, document)
    assert answer.code == 2 and "holds something else than a page of busbw prediction" in answer.err
    assert document.read_text() == f"# Mine\n{mark}\n"


@pytest.mark.parametrize("module", [prediction, tpu_v2, parameter_server], ids=lambda m: m.__name__)
def test_docs_studies_has_what_the_command_writes(module: object) -> None:
    """Its fixed words, wherever a line ends; its figures are of the machine that it names."""
    name = str(module.__name__).rpartition(".")[2]  # type: ignore[attr-defined]
    command = name.replace("_", "-")
    page = (ROOT / "docs" / "studies.md").read_text()
    _, _, rest = page.partition(f"<!-- Written by `python -m busbw {command}`, not by hand. -->")
    written, end, _ = rest.partition(f"<!-- End of busbw {command}. -->")
    assert end
    position = 0
    template = (ROOT / "busbw" / "studies" / f"{name}.md").read_text()
    for part in template.replace("{percent}", "25 %").split("\n\n"):
        if not part.startswith("{"):
            position = written.index(part.strip(), position)
