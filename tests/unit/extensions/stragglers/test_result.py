"""The sentences of a result, its table, and the good hosts."""

from __future__ import annotations

from dataclasses import replace

from busbw.extensions.stragglers.result import SearchResult, UnreachableComponent
from busbw.extensions.stragglers.statistics import MeasuredComponent, Racks
from busbw.report.table import render

SIZE = "all-reduce 16M"
HEALTHY = SearchResult(
    hosts=("a", "b", "c", "d"),
    detectable={SIZE: 0.15},
    ratios={SIZE: {"a": 1.0, "b": 1.0, "c": 1.8}},
)
CONTROL_PAIRS = ("a - b", "a - d", "b - d", "b - e", "d - e")
FAR = Racks(host_groups=(("a", "b"), ("c", "d")), ratio=2.0, alone=1.9)


def _tested(name: str, hosts: tuple[str, ...], ratio: float) -> MeasuredComponent:
    return MeasuredComponent(
        name=name,
        hosts=hosts,
        quantity=SIZE,
        ratio=ratio,
        p=0.003,
        rounds=3,
        control_pairs=CONTROL_PAIRS,
    )


def test_a_cluster_is_healthy_if_its_racks_are_slow_only_when_they_measure_together() -> None:
    cleared = _tested("host c", ("c",), 1.01)
    result = replace(HEALTHY, racks={SIZE: replace(FAR, alone=1.02)}, cleared=(cleared,))
    shared, candidate, healthy = result.sentences()
    assert candidate == (
        "cleared host c: all-reduce 16M takes 1.01x the median of its control pairs in 3 rounds, "
        "which is within the noise (a - b, a - d, b - d, and 2 pairs more)"
    )
    assert shared.endswith("1.02 x by itself: they share a connection")
    assert healthy.startswith("no host, link or chip is slow: ")
    assert result.is_healthy


def test_a_result_of_find_slow_with_missing_measurements_is_not_healthy() -> None:
    for result in (
        replace(HEALTHY, undecided=("host a",)),
        replace(HEALTHY, unmeasured="it hangs"),
    ):
        assert not result.is_healthy
        _, sentence = result.sentences()
        assert sentence.startswith("no host, link or chip is known to be slow: ")


def test_the_good_hosts_leave_out_unreachable_hosts_and_one_host_of_a_slow_link() -> None:
    link = _tested("link a - d", ("a", "d"), 2.3)
    silent = UnreachableComponent(name="host b", hosts=("b",), reason="it hangs")
    assert replace(HEALTHY, slow=(link,), unreachable=(silent,)).good_hosts == ["a", "c"]


def test_hosts_that_fall_into_two_groups_are_not_healthy_and_say_the_loss_of_most_hosts() -> None:
    result = replace(HEALTHY, fast=(_tested("link a - d", ("a", "d"), 0.1),))
    fast, sentence = result.sentences()
    assert fast.startswith("FAST link a - d: all-reduce 16M takes 0.10x the median of the others")
    assert "fall into two groups, and half of the hosts or more may be slow" in fast
    assert "is known to be slow: a loss of 900 % in all-reduce 16M would have been" in sentence
    assert not result.is_healthy


def test_each_column_of_the_table_of_find_slow_ends_at_the_same_place_in_each_row() -> None:
    ratios = {SIZE: {"a": 1.0, "a-long-name.of.a.host": 12.345}, "permute 64K": {"a": 1234.5}}
    result = SearchResult(hosts=("a", "a-long-name.of.a.host"), ratios=ratios)
    assert render("text", result.ratio_table()) == [
        "host                   all-reduce 16M  permute 64K",
        "a                                1.00      1234.50",
        "a-long-name.of.a.host           12.35",
    ]


def test_find_slow_compares_the_directions_of_a_slow_link() -> None:
    directions = {"a - b": {"a to b": 0.1, "b to a": 0.3}}
    sentences = replace(HEALTHY, directions=directions).sentences()
    assert "link a - b: b to a takes 3.00x a to b" in sentences
