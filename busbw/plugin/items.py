"""The fixture that a perf test reads its verdict from, and the item of the session's verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model import CompiledVerdict, CompileSpec, Outcome, Spec, Verdict

from .benchmark import replay
from .properties import compiled_properties_of, properties_of, training_properties_of
from .state import STATE, VERDICT, under_xdist

RUN_WITHOUT_XDIST = (
    "busbw measures alone on the machine: run perf items without -n "
    "(pytest-xdist would measure several at once)"
)


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """The Verdict of the parameter's Spec; measuring is over when the first test runs."""
    spec: Spec = request.param
    state = request.config.stash[STATE]
    reason = RUN_WITHOUT_XDIST if under_xdist(request.config) else "it was not measured"
    found = state.verdicts.get(spec) or _unmeasured(spec, reason)
    request.node.stash[VERDICT] = found
    request.node.user_properties.extend(properties_of(found))
    if spec in state.measurements:
        request.node.user_properties.extend(training_properties_of(state.measurements[spec]))
        replay(request, state.measurements[spec])
    return found


@pytest.fixture
def compiled(request: pytest.FixtureRequest) -> CompiledVerdict:
    """The CompiledVerdict of the parameter's CompileSpec; compiling is over by now."""
    spec: CompileSpec = request.param
    state = request.config.stash[STATE]
    reason = RUN_WITHOUT_XDIST if under_xdist(request.config) else "it was not compiled"
    found = state.compiled.get(spec) or CompiledVerdict(
        spec=spec, outcome=Outcome.FAILED, failed=True, text=reason
    )
    request.node.stash[VERDICT] = found
    request.node.user_properties.extend(compiled_properties_of(found))
    return found


def _unmeasured(spec: Spec, reason: str) -> Verdict:
    """A failure of the test itself: an error of its set-up would not count as one."""
    return Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=reason)


class SessionItem(pytest.Item):
    """Fails when the session as a whole gives no verdict, so that no such session is green."""

    def runtest(self) -> None:
        """Read the session's verdict."""
        if under_xdist(self.config):
            pytest.fail(RUN_WITHOUT_XDIST, pytrace=False)
        found = self.config.stash[STATE].session_verdict
        if found is None:
            pytest.fail("nothing was measured or compiled", pytrace=False)
        self.stash[VERDICT] = found
        if found.failed:
            pytest.fail(f"{found.outcome.value}: {found.text}", pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands in reports."""
        return self.path, None, "the session's verdict"
