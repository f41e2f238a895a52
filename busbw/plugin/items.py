"""The fixture that a perf test reads its verdict from, and the item of the session's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.model import (
    CompiledVerdict,
    CompileSpec,
    Outcome,
    SessionOutcome,
    SessionVerdict,
    Spec,
    Verdict,
    plural,
)

from .benchmark import replay
from .properties import compiled_properties_of, properties_of, training_properties_of
from .selecting import VERDICT, is_perf, under_xdist
from .session import SESSION, Measured, judged_of

RUN_WITHOUT_XDIST = (
    "busbw measures alone on the machine: run perf items without -n "
    "(pytest-xdist would measure several at once)"
)


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """The Verdict of the parameter's Spec; measuring is over when the first test runs."""
    spec: Spec = request.param
    judged = judged_of(request.config)
    reason = RUN_WITHOUT_XDIST if under_xdist(request.config) else "it was not measured"
    found = (judged.verdicts.get(spec) if judged else None) or _unmeasured(spec, reason)
    request.node.stash[VERDICT] = found
    request.node.user_properties.extend(properties_of(found))
    measured = judged.observed if judged else None
    if isinstance(measured, Measured) and spec in measured.measurements:
        request.node.user_properties.extend(training_properties_of(measured.measurements[spec]))
        replay(request, measured.measurements[spec])
    return found


@pytest.fixture
def compiled(request: pytest.FixtureRequest) -> CompiledVerdict:
    """The CompiledVerdict of the parameter's CompileSpec; compiling is over by now."""
    spec: CompileSpec = request.param
    judged = judged_of(request.config)
    reason = RUN_WITHOUT_XDIST if under_xdist(request.config) else "it was not compiled"
    found = (judged.compiled.get(spec) if judged else None) or CompiledVerdict(
        spec=spec, outcome=Outcome.FAILED, failed=True, text=reason
    )
    request.node.stash[VERDICT] = found
    request.node.user_properties.extend(compiled_properties_of(found))
    return found


def _unmeasured(spec: Spec, reason: str) -> Verdict:
    """A failure of the test itself: an error of its set-up would not count as one."""
    return Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=reason)


def _read_by_all(found: SessionVerdict, items: Sequence[pytest.Item]) -> SessionVerdict:
    """`found`; no verdict where a test was skipped before it read its own."""
    unread = [item for item in items if is_perf(item) and VERDICT not in item.stash]
    if not unread or found.failed:
        return found
    count = plural(len(unread), "case")
    text = f"{count} skipped before the verdict was read, first {unread[0].nodeid}; {found.text}"
    return replace(found, outcome=SessionOutcome.NO_VERDICT, text=text)


class SessionItem(pytest.Item):
    """Fails when the session as a whole gives no verdict, so that no such session is green."""

    def runtest(self) -> None:
        """Read the session's verdict."""
        if under_xdist(self.config):
            pytest.fail(RUN_WITHOUT_XDIST, pytrace=False)
        judged = judged_of(self.config)
        if judged is None:
            pytest.fail("nothing was measured or compiled", pytrace=False)
        found = _read_by_all(judged.session, self.session.items)
        self.config.stash[SESSION] = replace(judged, session=found)
        self.stash[VERDICT] = found
        if found.failed:
            pytest.fail(found.headline(), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands in reports."""
        return self.path, None, "the session's verdict"
