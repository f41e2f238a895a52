"""docs/costmodel.md lists the models and links that there are, with their figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.studies.estimate.catalog import LINKS, MODELS, NamedLink

PAGE = Path(__file__).parents[3] / "docs" / "costmodel.md"
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and (cells := [cell.strip() for cell in line.strip("|").split("|")])
}


def test_every_model_is_listed_with_its_number_of_parameters() -> None:
    for model in MODELS:
        figure = "unknown" if model.parameters is None else f"{model.parameters:,}"
        assert ROWS[model.name][0] == figure


@pytest.mark.parametrize(
    "link",
    [link for link in LINKS if not link.name.startswith("measured")],
    ids=lambda link: link.name,
)
def test_every_link_is_listed_with_its_rate(link: NamedLink) -> None:
    assert float(ROWS[link.name][0]) == pytest.approx(link.bytes_per_s / 1e9, rel=1e-4)


@pytest.mark.parametrize("where", ["intra", "inter"])
def test_the_measured_rates_are_listed_in_their_order(where: str) -> None:
    listed = ROWS[f"measured-{where}-1 to -8"][1].removesuffix(" MB/s").split(", ")
    there = [link for link in LINKS if link.name.startswith(f"measured-{where}")]
    assert [float(rate) * 1e6 for rate in listed] == [link.bytes_per_s for link in there]
