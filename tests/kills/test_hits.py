"""What is drawn: everything equally often, and the same for the same seed."""

from __future__ import annotations

from collections import Counter
from signal import SIGKILL, SIGSTOP

from kills.hits import SIGNALS, WITHOUT_AGENTS, Hit, Target, hits
from kills.layout import LAYOUTS


def test_sixty_hits_are_every_signal_to_every_target_three_times() -> None:
    counted = Counter((hit.target, hit.signal) for hit in hits(60, 1))
    assert counted == dict.fromkeys(
        ((target, number) for target in WITHOUT_AGENTS for number in SIGNALS), 3
    )


def test_of_groups_every_process_and_every_agent_is_killed_and_stopped() -> None:
    layout = LAYOUTS["agents"]
    drawn = [hit for hit in layout.draw(60, 1) if isinstance(hit, Hit)]
    counted = Counter((hit.target, hit.signal) for hit in drawn)
    assert counted == dict.fromkeys(
        ((target, number) for target in Target for number in (SIGKILL, SIGSTOP)), 5
    )
    assert {hit.member for hit in drawn} == {0, 1}


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    assert hits(20, 1) == hits(20, 1)
    assert hits(20, 1) != hits(20, 2)


def test_a_hit_comes_somewhere_within_the_part_and_who_leaves_is_the_first() -> None:
    drawn = hits(60, 1)
    assert all(0.1 <= hit.fraction <= 0.9 for hit in drawn)
    assert {hit.launch for hit in drawn if hit.target is Target.LEAVING} == {1}
    assert {hit.launch for hit in drawn if hit.target is Target.STARTING} == {1, 2}
