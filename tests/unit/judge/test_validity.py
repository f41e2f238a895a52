"""Failed launches, memory, ceilings of the hardware, and notes of injected delays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.judge.case import may_become_baseline, summarize_times
from busbw.judge.policy import CEILING_MARGIN
from busbw.judge.validity import (
    apply_ceiling,
    injection_notes,
    judge_failed_launches,
    out_of_memory_text,
    would_fit_without_other_programs,
)
from busbw.model.case import Case
from busbw.model.launch import Failure, Measurement, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline
from busbw.model.verdict import LaunchTimeSummary, PublishedBandwidth, Verdict
from busbw.model.words import MIB, FailureKind, Outcome, OutOfMemoryDetection
from tests.helpers import build
from tests.unit.judge.rules import OOM, STEADY, all_out_of_memory, verdict_on

HARD = [kind for kind in FailureKind if kind is not FailureKind.OUT_OF_MEMORY]


def test_a_case_that_is_out_of_memory_in_all_launches_has_no_failed_launch() -> None:
    assert judge_failed_launches(build.spec(), build.measurement(1e-3, 2e-3)) is None
    assert judge_failed_launches(build.spec(), all_out_of_memory()) is None


def test_the_text_of_a_failed_or_missing_launch_names_the_reference_stack() -> None:
    measurement = build.measurement(1e-3, failures=(build.failure(),))
    result: Any = judge_failed_launches(build.spec(), measurement, "the reference: ")
    assert result.text == "the reference: crashed in 1 of 2 launches: it broke"
    nothing: Any = judge_failed_launches(build.spec(), build.measurement(), "the reference: ")
    assert (nothing.outcome, nothing.failed) == (Outcome.FAILED, True)
    assert nothing.text == "the reference: it was not measured"


def test_an_out_of_memory_failure_is_temporary_only_if_an_idle_machine_has_enough_memory() -> None:
    assert would_fit_without_other_programs(_temporary_lack())
    assert not would_fit_without_other_programs(_temporary_lack(capacity_bytes=9))
    assert not would_fit_without_other_programs(_temporary_lack(capacity_bytes=None))
    assert not would_fit_without_other_programs(
        build.out_of_memory(detected=OutOfMemoryDetection.RAISED)
    )


def test_an_out_of_memory_failure_without_a_number_of_free_bytes_names_the_worker_memory() -> None:
    left = _temporary_lack(available_bytes=1024, process_bytes=4096)
    assert "by itself" not in out_of_memory_text(left)
    nothing = _temporary_lack(needed_bytes=2048, available_bytes=0, process_bytes=4096)
    assert out_of_memory_text(nothing) == (
        "needs 2.0 KiB, 0 bytes available, as the worker's process takes 4.0 KiB by itself "
        "(predicted before touching memory)"
    )


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        *((build.failure(kind), " in 1 of 3 launches: it broke") for kind in HARD),
        (build.out_of_memory(), "out of memory in 1 of 3 launches: it broke"),
    ],
)
def test_a_single_failed_launch_fails_the_case_and_the_verdict_has_no_time(
    failure: Failure, words: str
) -> None:
    measurement = build.measurement(1e-3, 1e-3, failures=(failure,))
    verdict = verdict_on(measurement, STEADY, accepts_slower_times=True)
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert verdict.text.endswith(words)
    assert failure is verdict.failure
    assert verdict.now is None


def test_a_verdict_names_a_timeout_rather_than_an_out_of_memory_failure_of_another_launch() -> None:
    both = build.measurement(failures=(build.out_of_memory(), build.failure(FailureKind.TIMEOUT)))
    assert verdict_on(both, OOM).text.startswith("timeout in 1 of 2 launches")


def _temporary_lack(**changes: Any) -> Failure:
    bytes_of = {"needed_bytes": 10, "available_bytes": 5, "capacity_bytes": 20, **changes}
    return build.out_of_memory(detected=OutOfMemoryDetection.PREDICTED, **bytes_of)


def test_a_case_that_lacks_only_memory_that_other_programs_use_is_incomparable() -> None:
    verdict = verdict_on(build.measurement(failures=(_temporary_lack(),) * 3), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.INCOMPARABLE, False)
    assert "needs 10 bytes, 5 bytes available (predicted" in verdict.text
    assert "with the machine's memory free it would fit" in verdict.text


def test_a_case_that_has_a_stored_time_fails_if_it_exceeds_the_memory_of_the_machine() -> None:
    verdict = verdict_on(build.measurement(failures=(_temporary_lack(capacity_bytes=9),)), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.OUT_OF_MEMORY, True)


@pytest.mark.parametrize(
    ("detected_by", "words"),
    [
        (OutOfMemoryDetection.PREDICTED, "predicted before touching memory"),
        (OutOfMemoryDetection.RAISED, "raised by the framework"),
        (OutOfMemoryDetection.KILLED, "the kernel killed the worker"),
        (None, "raised by the framework"),
    ],
)
def test_the_text_of_an_out_of_memory_failure_says_how_the_failure_was_detected(
    detected_by: OutOfMemoryDetection | None, words: str
) -> None:
    assert f"it broke ({words})" in verdict_on(all_out_of_memory(detected=detected_by), None).text


@pytest.mark.parametrize(
    ("measurement", "baseline", "may"),
    [
        (build.measurement(1e-3), None, True),
        (build.measurement(9e-3), STEADY, True),
        (build.measurement(1e-3), build.baseline(1e-3, protocol="host/other"), True),
        (all_out_of_memory(), None, True),
        (build.measurement(failures=(_temporary_lack(),)), STEADY, False),
        (build.measurement(failures=(_temporary_lack(),)), None, False),
        (build.measurement(1e-3, failures=(build.out_of_memory(),)), None, False),
        (build.measurement(failures=(build.failure(),)), None, False),
    ],
)
def test_only_a_time_or_a_permanent_out_of_memory_failure_may_become_a_baseline(
    measurement: Measurement, baseline: Baseline | None, may: bool
) -> None:
    assert may == may_become_baseline(verdict_on(measurement, baseline))
    assert not may_become_baseline(build.verdict(Outcome.SKIPPED))


A100 = EnvironmentKey(device_kind="NVIDIA A100-SXM4-80GB", ranks=8)
H100 = EnvironmentKey(device_kind="NVIDIA H100 80GB HBM3", ranks=8)
V100 = EnvironmentKey(device_kind="NVIDIA V100-SXM2-32GB", ranks=8)
POD = EnvironmentKey(device_kind="TPU v5 lite", ranks=256, mesh="16x16")
CPU = EnvironmentKey(device_kind="AMD EPYC", ranks=8, cores=2)
PAIR_OF_CORES = EnvironmentKey(device_kind="TPU v2", ranks=2)

ABOVE = 1 + CEILING_MARGIN + 0.001
BELOW = 1 + CEILING_MARGIN - 0.001
MEASURED = [
    Outcome.PASS,
    Outcome.REGRESSED,
    Outcome.IMPROVED,
    Outcome.NOISY,
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
]


def _case(key: EnvironmentKey) -> Case:
    return build.case(payload_bytes=64 * MIB, ranks=key.ranks)


def _summary(key: EnvironmentKey, gb_per_s: float, *slower: float) -> LaunchTimeSummary:
    """Return a summary of a launch of this busbw and of launches that are slower."""
    best_s = 2 * (key.ranks - 1) / key.ranks * 64 * MIB / (gb_per_s * 1e9)
    return summarize_times(_case(key), [best_s, *(factor * best_s for factor in slower)])


def _measured(
    key: EnvironmentKey, gb_per_s: float, outcome: Outcome = Outcome.PASS, **more: Any
) -> Verdict:
    fields = {"now": _summary(key, gb_per_s), **more}
    return build.verdict(outcome, case=_case(key), **fields)


def _runs(*chosen: dict[str, str]) -> list[Run]:
    return [build.run(1e-3, proof=replace(build.proof(), chosen=options)) for options in chosen]


def _apply_ceiling_of(
    key: EnvironmentKey, gb_per_s: float, *chosen: dict[str, str], **more: Any
) -> Any:
    """Return the verdict, typed so that a test needs no check for None."""
    return apply_ceiling(_measured(key, gb_per_s, **more), key, _runs(*(chosen or ({},))))


def test_a_verdict_below_the_ceiling_does_not_change_except_that_the_ceiling_is_added() -> None:
    result = _apply_ceiling_of(A100, 240.0)
    assert result.ceiling.bytes_per_s == pytest.approx(300e9)
    assert result.ceiling_share == pytest.approx(0.8)
    assert replace(result, ceiling=None) == _measured(A100, 240.0)


@pytest.mark.parametrize(
    ("key", "before"),
    [
        (CPU, _measured(CPU, 1e6)),
        (replace(H100, device_kind="NVIDIA T4"), _measured(H100, 1e6)),
        # Both ranks on one chip, where nothing passes a link.
        (PAIR_OF_CORES, _measured(PAIR_OF_CORES, 1e6)),
        (POD, build.verdict(case=None)),
        # A slice of unknown shape.
        (replace(POD, mesh=""), _measured(POD, 150.0)),
    ],
)
def test_the_ceiling_check_does_not_change_a_verdict_if_the_ceiling_is_unknown(
    key: EnvironmentKey, before: Verdict
) -> None:
    result = apply_ceiling(before, key, _runs({}))
    assert result == before
    assert result.ceiling_share is None


@pytest.mark.parametrize("outcome", MEASURED)
@pytest.mark.parametrize("failed", [True, False])
def test_a_verdict_fails_if_its_rate_exceeds_the_maximum_rate_of_all_algorithms(
    outcome: Outcome, failed: bool
) -> None:
    result = _apply_ceiling_of(A100, 300 * ABOVE, outcome=outcome, failed=failed, ratio=0.5)
    assert (result.outcome, result.failed) == (Outcome.FAILED, True)
    assert not may_become_baseline(result)
    assert result.text == (
        "busbw 315 GB/s in the best launch is above 300 GB/s, the most that the hardware allows "
        "by any algorithm (links: 12 of 25.0 GB/s): an error of measurement, not a record"
    )


def test_a_verdict_above_the_ceiling_loses_its_time_and_its_baseline_and_its_ratio() -> None:
    fields: dict[str, Any] = {
        "notes": ("clocks disagree",),
        "published": PublishedBandwidth(source="a", oom=True),
    }
    result = _apply_ceiling_of(
        A100, 600.0, baseline=build.summary(), ratio=0.5, limit=1.2, **fields
    )
    assert (result.now, result.baseline, result.ratio, result.limit) == (None,) * 4
    assert result.ceiling is not None and result.ceiling_share is None
    assert (result.notes, result.published) == (fields["notes"], fields["published"])


@pytest.mark.parametrize("times", [1.0, BELOW])
def test_a_rate_above_the_ceiling_by_less_than_the_rounding_of_published_rates_passes(
    times: float,
) -> None:
    result = _apply_ceiling_of(A100, 300 * times)
    assert (result.outcome, result.notes) == (Outcome.PASS, ())


def test_one_launch_above_the_ceiling_fails_a_case_whose_median_is_below_the_ceiling() -> None:
    verdict = _measured(A100, 330.0, now=_summary(A100, 330.0, 2.0, 2.0))
    assert verdict.now is not None and verdict.now.busbw_gb_per_s < 300
    assert apply_ceiling(verdict, A100, _runs({})).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("key", "gb_per_s", "chosen", "words", "end"),
    [
        (
            V100,
            200.0,
            {},
            "busbw 200 GB/s in the best launch is above 150 GB/s",
            "an error of measurement, or the chip's figures are wrong",
        ),
        (
            POD,
            150.0,
            {"colors": "2"},
            "above 100 GB/s (links: 4 of 4 links of 50.0 GB/s in use, 2 colors)",
            "the 200 GB/s that some algorithm may reach",
        ),
    ],
    ids=["figures", "routes"],
)
def test_a_rate_above_a_ceiling_of_uncertain_figures_or_of_the_routes_of_a_compiler_has_a_note(
    key: EnvironmentKey, gb_per_s: float, chosen: dict[str, str], words: str, end: str
) -> None:
    result = _apply_ceiling_of(key, gb_per_s, chosen)
    assert (result.outcome, result.failed) == (Outcome.PASS, False)
    assert may_become_baseline(result)
    (note,) = result.notes
    assert words in note
    assert end in note


def test_a_rate_that_is_possible_only_if_the_switch_adds_up_passes_with_a_note() -> None:
    result = _apply_ceiling_of(H100, 480.0, notes=("before",))
    assert (result.outcome, result.failed) == (Outcome.PASS, False)
    assert result.notes == (
        "before",
        "busbw 480 GB/s in the best launch is above what links allow without adding up in the "
        "switch (450 GB/s): the switch adds up",
    )


def test_a_case_fails_if_its_busbw_exceeds_the_ceiling_for_a_switch_that_adds_up_the_data() -> None:
    result = _apply_ceiling_of(H100, 2 * 7 / 8 * 450 * ABOVE)
    assert result.outcome is Outcome.FAILED
    assert "above 788 GB/s" in result.text
    assert "(links: 18 of 25.0 GB/s, adding up in the switch)" in result.text


def test_a_case_whose_launches_use_different_routes_has_the_ceiling_of_all_links() -> None:
    result = _apply_ceiling_of(POD, 150.0, {"colors": "2"}, {"colors": "4"})
    assert result.ceiling_share == pytest.approx(0.75)
    assert result.notes == ()


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.OUT_OF_MEMORY])
def test_a_verdict_without_a_time_keeps_its_outcome_and_has_a_ceiling(outcome: Outcome) -> None:
    before = build.verdict(outcome, case=_case(A100), now=None, failed=True, text="why")
    result = apply_ceiling(before, A100, [])
    assert result.ceiling is not None
    assert replace(result, ceiling=None) == before


def test_a_reference_stack_above_the_ceiling_fails_the_case_and_is_named_in_the_text() -> None:
    verdict = _measured(A100, 200.0, Outcome.REGRESSED, baseline=_summary(A100, 600.0))
    result = apply_ceiling(verdict, A100, _runs({}), is_paired=True)
    assert (result.outcome, result.now) == (Outcome.FAILED, None)
    assert result.text.startswith("the reference: busbw 600 GB/s in the best launch is above")


def test_a_reference_with_a_busbw_above_the_ceiling_of_the_candidate_s_routes_fails_no_case() -> (
    None
):
    verdict = _measured(POD, 90.0, baseline=_summary(POD, 180.0))
    result = apply_ceiling(verdict, POD, _runs({"colors": "2"}), is_paired=True)
    assert (result.outcome, result.notes) == (Outcome.PASS, ())


@pytest.mark.parametrize(
    ("key", "most_gb_per_s"),
    [
        # Twice 4 links of 496 Gbit/s on each of 4 chips, for 8 ranks.
        (EnvironmentKey(device_kind="TPU v2", ranks=8), 7 / 8 * 4 / 3 * 2 * 248),
        (EnvironmentKey(device_kind="TPU v2", ranks=8, mesh="2x2"), 7 / 8 * 4 / 3 * 2 * 248),
        (EnvironmentKey(device_kind="v2-8", ranks=8), 7 / 8 * 4 / 3 * 2 * 248),
        (EnvironmentKey(device_kind="TPU v4", ranks=4), 270.0),
        (EnvironmentKey(device_kind="v5litepod-16", ranks=16), 200.0),
        (replace(POD, mesh=""), 200.0),
        (EnvironmentKey(device_kind="TPU7x", ranks=8, mesh="2x2"), 7 / 8 * 4 / 3 * 2 * 600),
        (replace(H100, hosts=2, ranks=16), 2 * 15 / 16 * 2 * 450),
        (V100, 2 * 7 / 8 * 2 * 150),
    ],
)
def test_a_case_with_a_busbw_above_the_sum_of_all_links_fails_for_any_shape_of_the_slice(
    key: EnvironmentKey, most_gb_per_s: float
) -> None:
    assert _apply_ceiling_of(key, most_gb_per_s * BELOW).outcome is Outcome.PASS
    result = _apply_ceiling_of(key, most_gb_per_s * ABOVE)
    assert (result.outcome, result.failed, result.now) == (Outcome.FAILED, True, None)
    assert "the most that the hardware allows by any algorithm (" in result.text
    assert "links of" in result.text and "of every chip at once, whatever the shape" in result.text


@pytest.mark.parametrize("collective", ["all_gather", "all_to_all", "permute"])
def test_a_rate_of_a_collective_other_than_all_reduce_above_the_sum_of_all_links_fails(
    collective: str,
) -> None:
    case = build.case(payload_bytes=64 * MIB, ranks=8, collective=collective)
    verdict = build.verdict(case=case, now=summarize_times(case, [1e-9]))
    assert apply_ceiling(verdict, H100, _runs({})).outcome is Outcome.FAILED


def test_a_stored_baseline_above_the_ceiling_does_not_fail_a_case() -> None:
    verdict = _measured(A100, 200.0, baseline=_summary(A100, 600.0))
    assert apply_ceiling(verdict, A100, _runs({})).outcome is Outcome.PASS


ASKED = "delay:3%@16M"


def _note(*ratios: float | None) -> tuple[str, ...]:
    return injection_notes(
        [build.run(1e-3, injected=ASKED, injected_ratio=ratio) for ratio in ratios]
    )


@pytest.mark.parametrize(
    ("ratios", "percent"),
    [((1.25,), "+25.0"), ((1.03, None, 1.25, 1.05), "+5.0"), ((0.98,), "-2.0")],
)
def test_the_note_of_an_injected_delay_has_the_median_of_the_measured_delays(
    ratios: tuple[float | None, ...], percent: str
) -> None:
    assert _note(*ratios) == (f"injected {ASKED}: measured {percent} %",)


def test_a_case_without_a_measured_delay_has_no_note_of_an_injected_delay() -> None:
    assert _note(None) == ()
