"""The page about many processes: costs that are measured here, and a slice that is worked out."""

from __future__ import annotations

from bench.groups import Cost, cost, page, parse_s
from busbw import driver


def test_a_group_that_answers_has_a_cost_for_each_process() -> None:
    bundle = driver.Bundle()
    try:
        found = cost(driver.LocalTransport(bundle), 2)
    finally:
        bundle.remove()
    assert found.count == 2
    assert min(found.start_s, found.message_s, found.wall_s) > 0


def test_an_answer_grows_with_the_ranks() -> None:
    (_, few), (_, many) = parse_s(8), parse_s(4096)
    assert many > 100 * few / 8


def test_the_page_works_out_what_a_large_slice_takes() -> None:
    costs = [Cost(count=32, start_s=0.002, message_s=1e-4, wall_s=0.004)]
    text = "\n".join(page([], costs, {4096: (0.01, 90 * 1024)}))
    assert "| 32 | 2.0 | 100 | 4.0 |" in text
    assert "256 x 2.0 ms = 0.5 s" in text
    assert "256 x 100 us = 26 ms" in text
    assert "= 22 MiB, and 2.6 s" in text.replace("\n  ", " ")
