"""Decide which cases need no more launches than the first one, for `--launches=auto`.

A first launch that is safely within the limit of its case can only become PASS. A loss that the
launch hides is at most the share `policy.AUTO_LIMIT_SHARE` of the limit, plus the noise of one
launch.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.model.case import Case

from .lasting_losses import Assessment
from .policy import AUTO_LIMIT_SHARE, AUTO_MIN_SESSIONS, AUTO_WHOLE_SESSION_EVERY


def decided_cases(assessment: Assessment) -> Iterator[Case]:
    """Yield the cases that the first launch decides; `assessment` has one launch of each case.

    A case needs more launches if the case or its framework has a loss or may have a loss, or if the
    level of the case has too few sessions. All cases need more launches in a noisy session, and in
    every session of which the number is a multiple of `policy.AUTO_WHOLE_SESSION_EVERY`.
    """
    history = assessment.history
    is_whole = history.session_count % AUTO_WHOLE_SESSION_EVERY == 0
    if is_whole or assessment.widening > 1:
        return
    for case, limits in assessment.limits.items():
        shared, before = assessment.shared_parts[case.framework], history.case_series[case]
        states = [assessment.loss_states[name] for name in (case, case.framework)]
        states += [before.loss_state, history.framework_series[case.framework].loss_state]
        log_ratio = limits.common_shift + limits.residual
        if (
            len(before.counted_positions) >= AUTO_MIN_SESSIONS
            and limits.faster_below_log_ratio
            <= log_ratio
            <= AUTO_LIMIT_SHARE * limits.slower_above_log_ratio
            and shared.shift_log_ratio <= AUTO_LIMIT_SHARE * shared.limit_log_ratio
            and not any(state.loss for state in states)
        ):
            yield case
