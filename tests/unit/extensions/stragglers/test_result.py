"""The sentences of a result, its table, and the good hosts."""

from __future__ import annotations

from dataclasses import replace

from busbw.extensions.stragglers.result import SearchResult, UnreachableComponent
from busbw.extensions.stragglers.statistics import MeasuredComponent, Racks

SIZE = "all-reduce 16M"
HEALTHY = SearchResult(
    hosts=("a", "b", "c", "d"),
    detectable={SIZE: 0.15},
    ratios={SIZE: {"a": 1.0, "b": 1.0, "c": 1.8}},
)
FAR = Racks(host_groups=(("a", "b"), ("c", "d")), ratio=2.0, alone=1.9)


def test_a_cluster_is_healthy_if_its_racks_are_slow_only_when_they_measure_together() -> None:
    cleared = MeasuredComponent(name="host c", hosts=("c",), quantity=SIZE, ratio=1.01, p=1.0)
    result = replace(HEALTHY, racks={SIZE: replace(FAR, alone=1.02)}, cleared=(cleared,))
    shared, candidate, healthy = result.sentences()
    assert candidate.startswith("cleared host c: all-reduce 16M takes 1.01x the median of its ")
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
    link = MeasuredComponent(name="link a - d", hosts=("a", "d"), quantity=SIZE, ratio=2.3, p=0.003)
    silent = UnreachableComponent(name="host b", hosts=("b",), reason="it hangs")
    assert replace(HEALTHY, slow=(link,), unreachable=(silent,)).good_hosts == ["a", "c"]
