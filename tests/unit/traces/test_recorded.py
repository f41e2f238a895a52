"""Real recordings of JAX and TensorFlow, compared with what JAX's own reader says of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pytest

from busbw.traces.chrome import read_chrome
from busbw.traces.collectives import WantedEvents, collectives
from busbw.traces.event import Trace
from busbw.traces.iterations import iterations
from busbw.traces.xplane import read_xplane
from tests.helpers.frameworks import needs
from tests.unit.traces import recorded
from tests.unit.traces.recorded import CALLS, ROUNDS, Recording, Seen

pytestmark = needs("jax")

# The durations of each rank in each call, in the order of time.
Durations = dict[tuple[str, str], list[float]]


@pytest.fixture(scope="module")
def by_jax(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded.record(recorded.JAX, tmp_path_factory.mktemp("jax"))


@pytest.fixture(scope="module")
def by_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded.record(recorded.TENSORFLOW, tmp_path_factory.mktemp("tensorflow"))


def _read(recording: Recording) -> Trace:
    return read_xplane(recording.xplane.read_bytes(), host="h", keep=WantedEvents())


def _durations(trace: Trace) -> Durations:
    found: Durations = defaultdict(list)
    for one in iterations(collectives(trace), drop_first=False):
        for rank, duration_s in one.durations_s.items():
            found[one.call, rank].append(duration_s)
    return found


def _same(found: Durations, wanted: Durations) -> None:
    """The same ranks, calls and counts, and every duration to 1 %."""
    assert {key: len(times) for key, times in found.items()} == {key: ROUNDS for key in wanted}
    assert len(wanted) == 2 * CALLS
    for key, times in wanted.items():
        assert found[key] == pytest.approx(times, rel=0.01)


def _comparable(stats: Mapping[str, object]) -> dict[str, object]:
    """TensorFlow's allocator gives not-a-number for the fragmentation of nothing."""
    return {name: "nan" if value != value else value for name, value in stats.items()}


def _assert_all_events_are_the_same(recording: Recording) -> None:
    events = read_xplane(recording.xplane.read_bytes()).events
    ours = [(e.plane, e.line, e.name, _comparable(e.stats)) for e in events]
    assert ours == [(s.plane, s.line, s.name, _comparable(s.stats)) for s in recording.seen]
    durations = [event.duration_s * 1e9 for event in events]
    assert durations == pytest.approx([s.duration_ns for s in recording.seen], abs=1)
    shift = recording.seen[0].start_ns - events[0].start_s * 1e9
    starts = [event.start_s * 1e9 + shift for event in events]
    assert starts == pytest.approx([s.start_ns for s in recording.seen], abs=1)


@pytest.mark.exhaustive
def test_every_event_of_jax_is_what_its_own_reader_says(by_jax: Recording) -> None:
    _assert_all_events_are_the_same(by_jax)


@pytest.mark.exhaustive
def test_the_durations_of_jax_are_those_of_its_own_reader(by_jax: Recording) -> None:
    wanted: Durations = defaultdict(list)
    for seen in sorted(by_jax.seen, key=lambda seen: seen.start_ns):
        if seen.name.startswith("psum"):
            rank = f"h/{seen.stats['device_ordinal']}"
            wanted[str(seen.stats["run_id"]), rank].append(seen.duration_ns * 1e-9)
    _same(_durations(_read(by_jax)), wanted)


@pytest.mark.exhaustive
def test_both_files_of_jax_hold_the_same_collectives(by_jax: Recording) -> None:
    (other,) = by_jax.folder.glob("plugins/profile/*/*.trace.json.gz")
    chrome = read_chrome(other.read_bytes(), host="h", keep=WantedEvents())
    _same(_durations(chrome), _durations(_read(by_jax)))


@pytest.mark.exhaustive
@needs("tensorflow")
def test_every_event_of_tensorflow_is_what_jaxs_reader_says(by_tensorflow: Recording) -> None:
    _assert_all_events_are_the_same(by_tensorflow)


@pytest.mark.exhaustive
@needs("tensorflow")
def test_the_durations_of_tensorflow_end_when_the_values_are_returned(
    by_tensorflow: Recording,
) -> None:
    """The two nodes of a step's instance are the two replicas, the one without a number first."""
    wanted: Durations = defaultdict(list)
    for seen in sorted(by_tensorflow.seen, key=lambda seen: seen.start_ns):
        if seen.name.endswith(":CollectiveReduceV2"):
            node = seen.name.removesuffix(":CollectiveReduceV2")
            rank = "h/1" if node.endswith("_1") else "h/0"
            returned = _returned(by_tensorflow, seen, node)
            assert seen.start_ns < returned <= seen.start_ns + seen.duration_ns
            duration_s = (returned - seen.start_ns) * 1e-9
            wanted[str(seen.stats["step_id"]), rank].append(duration_s)
    _same(_durations(_read(by_tensorflow)), wanted)


def _returned(recording: Recording, op: Seen, node: str) -> float:
    """When the thread that ran `op` began to call back, in nanoseconds."""
    return min(
        seen.start_ns
        for seen in recording.seen
        if seen.name == "CollectiveExecutor::ExecuteAsync::Done"
        and (seen.line, seen.stats["name"]) == (op.line, node)
        and seen.start_ns > op.start_ns
    )
