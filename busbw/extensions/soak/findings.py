"""Find changed health counters of devices, and changed orders of summation.

A separate process on each host reads the health counters of devices after every case. If such a
process does not answer in time, it is killed, and no counters are read any more. A signature is a
hash of a sum's result, and the orders of summation that give this result. The signature of a case
is compared with its reference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.schedules import Side
from busbw.driver.transport import Request, WorkerSpec
from busbw.frameworks import FRAMEWORKS
from busbw.judge.decision import Finding
from busbw.model.case import Case, CaseSpec
from busbw.model.field_types import NotNegative
from busbw.model.launch import Failure, LaunchId, Measurement, Run
from busbw.model.stored import Record, setup_changes
from busbw.model.verdict import Verdict
from busbw.model.words import DeviceClass, payload_text, plural, seconds_text
from busbw.report.table import Column, Table, TextLine, make_rows
from busbw.session.machine import worker_spec_of
from busbw.session.measure import Observer
from busbw.session.state import MeasuredSession

from .worker_health import HealthReading

HEALTH_VALUE = "health"
# The type of a signature, such as ``5e1c09af ring``.
Signature = str

_TIMEOUT_S = 10.0

# Throttling for less than this fraction of the time between two readings is not reported.
_MIN_THROTTLED_FRACTION = 0.01

# Throttling explains a slower case if it took at least this fraction of the time that the case
# lost. The time of a launch is the lower quartile of its samples, and the time of a case is the
# median of its launches. So stops in three quarters of the samples of half of the launches are
# enough to make a case slower.
_MIN_THROTTLED_LOSS_FRACTION = 1 / 3

_ORDER_COLUMNS = (
    Column("group", is_fitted_to_cells=True, left_aligned=True),
    Column("orders", left_aligned=True, gap=2),
)


@dataclass(kw_only=True, slots=True)
class HealthChanges:
    """The health counters that changed while a case ran.

    The name of a counter contains its device, such as ``gpu 0 PCIe replays``. In a session with
    several hosts, the name begins with the host.

    Attributes:
        errors: Maps the name of each changed error counter to the pair (count before the first
            change, count after the last change).
        throttled_s: Maps each device and reason for throttling, such as ``gpu 0 power cap``, to the
            seconds of throttling while the case ran.

    """

    errors: dict[str, tuple[float, float]] = field(default_factory=dict)
    throttled_s: dict[str, NotNegative] = field(default_factory=dict)

    def add_changes(self, earlier: HealthReading, later: HealthReading, prefix: str = "") -> None:
        """Add the changes between two readings of the same host to these changes.

        `earlier` and `later` are the two readings. `prefix` is a text such as ``host1, ``, which is
        put before the names of counters. Throttling for less than 1 % of the time between the
        readings is ignored.
        """
        for counter in sorted({*earlier.errors, *later.errors}):
            first = earlier.errors.get(counter, 0.0)
            last = later.errors.get(counter, 0.0)
            if first != last:
                name = prefix + counter
                self.errors[name] = self.errors.get(name, (first,))[0], last
        min_s = _MIN_THROTTLED_FRACTION * (later.read_s - earlier.read_s)
        for counter, seconds in later.throttled_s.items():
            # A device counts from the start of its driver, so its first count is no change.
            gained_s = seconds - earlier.throttled_s.get(counter, seconds)
            if gained_s > 0 and gained_s >= min_s:
                name = prefix + counter
                self.throttled_s[name] = self.throttled_s.get(name, 0.0) + gained_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The health counters of all devices in a session.

    Attributes:
        readings: The last reading of each host.
        changes: Maps the names of cases to the counters that changed while the case ran. Cases
            without a changed counter are left out.

    """

    readings: tuple[HealthReading, ...]
    changes: Mapping[str, HealthChanges]


def make_observer(resolved_session: MeasuredSession, executor: Executor) -> Observer | None:
    """Return an Observer that reads the health counters of all hosts of a session.

    `resolved_session` is the session before it measures, and `executor` starts the processes that
    read. Returns None for scripted frameworks, whose devices have no counters. Scripted GPUs are an
    exception, because tests have a fake library with the counters of GPUs.
    """
    target = resolved_session.machine.target
    framework = next(iter(target.device_sets))
    if FRAMEWORKS[framework].is_scripted and target.device is not DeviceClass.GPU:
        return None
    worker_spec = worker_spec_of(
        resolved_session.options, framework, Side.CANDIDATE, device=target.device
    )
    observer = HealthObserver(executor, replace(worker_spec, service=HEALTH_VALUE))
    return Observer(observer.observe, observer.health)


@dataclass
class HealthObserver:
    """A reader of the health counters of all hosts, which keeps the changes during each case.

    Attributes:
        executor: Starts a process on each host, which reads the counters.
        worker_spec: Says how these processes are started; None after reading has failed once.
            Then no counters are read any more.

    """

    executor: Executor
    worker_spec: WorkerSpec | None
    _last_readings: dict[str, HealthReading] = field(default_factory=dict)
    _changes: dict[str, HealthChanges] = field(default_factory=lambda: defaultdict(HealthChanges))
    _group: Group | Failure | None = None

    def health(self) -> Health | None:
        """Return the last readings and all changes so far, or None if no counter was read."""
        changes = {name: new for name, new in self._changes.items() if new != HealthChanges()}
        readings = tuple(self._last_readings.values())
        return Health(readings=readings, changes=changes) if readings else None

    def observe(self, case: Case | None) -> None:
        """Read all counters, and add the changes since the last reading to the changes of `case`.

        `case` is the case that has just run. Before the first case of a launch, `case` is None, and
        the changes are ignored. If several processes read on a host, the last reading counts.
        """
        replies = self._read_all_hosts(self.worker_spec) if self.worker_spec else []
        readings = {reply.host: reply for reply in replies if isinstance(reply, HealthReading)}
        failures = [reply.message for reply in replies if isinstance(reply, Failure)]
        if failures or not any(r.errors or r.throttled_s or r.values for r in readings.values()):
            self.worker_spec = None
            for message in failures[:1]:
                self.executor.on_note(f"health counters of devices are not read: {message}")
            return
        for host, reading in readings.items():
            before = self._last_readings.get(host, reading)
            prefix = f"{host}, " if len(self._last_readings) > 1 else ""
            if case is not None:
                self._changes[case.name].add_changes(before, reading, prefix)
            self._last_readings[host] = reading

    def _read_all_hosts(self, worker_spec: WorkerSpec) -> Sequence[HealthReading | Failure]:
        """Request a reading of each process, and return the readings.

        In place of the reading of a process that failed, the result has a Failure. If the processes
        cannot be started, or if one of them does not answer in time, the result has only a single
        Failure. If the processes do not run yet, they are started as `worker_spec` says.
        """
        if not isinstance(self._group, Group) or self._group.has_ended:
            self._group = self.executor.open_group(worker_spec, LaunchId(name=HEALTH_VALUE))
        if isinstance(self._group, Failure):
            return [self._group]
        replies = self._group.ask_each(
            Request(HEALTH_VALUE, HealthReading), _TIMEOUT_S, "reading health counters"
        )
        return [replies] if isinstance(replies, Failure) else replies


def health_finding(measured_session: MeasuredSession, spec: CaseSpec, verdict: Verdict) -> Finding:
    """Return the finding on the health counters that changed while the case `spec` ran.

    The finding contains a note for each changed counter, and is empty if no counter changed. If
    `verdict` has a ratio, and throttling took long enough to explain the loss, the finding also
    contains a doubt: throttling may have made the case slower, and not the code. With two
    interleaved stacks no doubt is added, because both stacks are throttled alike.
    """
    health: Health | None = measured_session.extra.get(HEALTH_VALUE)
    case_name = measured_session.jobs[spec].case.name
    if health is None or case_name not in health.changes:
        return Finding()
    changes = health.changes[case_name]
    errors = [f"{name} {first:g} -> {last:g}" for name, (first, last) in changes.errors.items()]
    throttling = [
        f"{name}: throttled for {seconds_text(seconds, 3)}"
        for name, seconds in changes.throttled_s.items()
    ]
    doubt = ""
    if verdict.ratio and not measured_session.options.is_paired:
        runs = measured_session.measurements[spec].runs
        sampling_s = sum(run.phases_s.get("sampling", 0.0) for run in runs)
        lost_s = (1 - 1 / verdict.ratio) * sampling_s
        if sum(changes.throttled_s.values()) >= _MIN_THROTTLED_LOSS_FRACTION * lost_s:
            doubt = ", ".join(throttling)
    return Finding(notes=(*errors, *throttling), doubt=doubt)


def signature_finding(
    measured_session: MeasuredSession, spec: CaseSpec, verdict: Verdict
) -> Finding:
    """Return the finding on the order of summation of the case `spec`.

    The finding contains a note if the order changed, or varies between launches. Otherwise the
    finding is empty. With --require-signature the finding contains a failure in place of the note.
    Then it is also a failure if only the session or only the reference has a signature. A case
    without a reference never fails. `verdict` is not used.
    """
    runs = measured_session.measurements[spec].runs
    reference = _reference_launches(measured_session, spec)
    is_required = bool(reference) and "require_signature" in measured_session.options.extra
    text = order_problem_text(runs, reference, is_required=is_required)
    if is_required:
        return Finding(failure=text)
    return Finding(notes=(text,) if text else ())


def order_problem_text(
    runs: Sequence[Run], reference: Sequence[Run | Record], *, is_required: bool = False
) -> str:
    """Return how the order of summation changed or varies between launches, as a text.

    The text is empty if the order neither changed nor varies.

    Args:
        runs: The runs of the case, a run for each launch.
        reference: The runs or records with which `runs` are compared; empty without a reference.
        is_required: Whether it is also a problem if only one of `runs` and `reference` has a
            signature.

    """
    signatures = _distinct_signatures(runs)
    old_signatures = _distinct_signatures(reference)
    if len(signatures) > 1:
        return (
            f"no signature: {plural(len(runs), 'launch')} added up in several orders: "
            f"{', '.join(signatures)}"
        )
    if not runs or not reference or signatures == old_signatures:
        return ""
    old_signature = "none" if len(old_signatures) > 1 else old_signatures[0]
    if "none" in (old_signature, signatures[0]) and not is_required:
        return ""
    stack = (
        ", ".join(setup_changes(reference[0].versions, runs[0].versions))
        or "the same stack: a fault, or an order that is chosen by chance"
    )
    return f"another order of additions ({stack}): {old_signature} -> {signatures[0]}"


def _distinct_signatures(launches: Iterable[Run | Record]) -> list[str]:
    """Return the signatures of `launches` in alphabetical order, and equal signatures once.

    A launch without a signature has the signature ``none``.
    """
    return sorted({str(launch.extra.get("signature") or "none") for launch in launches})


def _reference_launches(
    measured_session: MeasuredSession, spec: CaseSpec
) -> Sequence[Run | Record]:
    """Return the runs or records with whose signatures the case `spec` is compared.

    With two interleaved stacks these are the runs of the reference. Otherwise the result has only
    the newest record of the baseline. The result is empty without a baseline of the same protocol.
    """
    if measured_session.options.is_paired:
        return measured_session.references[spec].runs
    job = measured_session.jobs[spec]
    baseline = job.baseline_search.baseline
    if baseline is None or baseline.case.protocol != job.case.protocol:
        return ()
    return baseline.records[-1:]


def order_tables(measurements: Iterable[Measurement]) -> list[Table]:
    """Return a table that shows from which payload on each order of summation is used.

    The table has a row for each family of cases in which the order changes with the payload, such
    as ``binary tree from 64K, ring from 1M``. The list is empty if there is no such family. Cases
    without a signature, with several signatures, or with a result that any order gives are left
    out.
    """
    starts: dict[str, list[str]] = defaultdict(list)
    common_orders: dict[str, set[str]] = defaultdict(set)
    for measurement in sorted(measurements, key=attrgetter("case.payload_bytes")):
        signatures = _distinct_signatures(measurement.runs)
        order = signatures[0].partition(" ")[2] if len(signatures) == 1 else ""
        if order not in ("", "any order"):
            family = measurement.case.family_name
            orders = set(order.split(" or "))
            # Signatures of successive payloads can name different orders with an order in common.
            if not common_orders[family] & orders:
                payload = payload_text(measurement.case.payload_bytes)
                starts[family].append(f"{order} from {payload}")
            common_orders[family] = common_orders[family] & orders or orders
    rows = [
        {"group": family, "orders": ", ".join(texts)}
        for family, texts in starts.items()
        if len(texts) > 1
    ]
    if not rows:
        return []
    return [
        Table(
            title=TextLine("order of summation, by payload:"),
            columns=_ORDER_COLUMNS,
            rows=make_rows(rows),
            indent=4,
        )
    ]
