"""What each computation of a program runs: its collectives, and those that it starts or ends.

A computation is read once for each way in which collectives in progress are handed to it. Loops
count as often as they turn, a branch as often as it may be taken.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .counts import Counts, Work, ended, merge, multiplied, taken_at_most
from .flows import NO_CHAINS, Chain, Chains, Flow, chains_of, either, element_of, renamed, tuple_of
from .hlo import Instruction, Module, ProgramError
from .lines import Lines
from .trips import Trips

_NUMBER = re.compile(r"\bparameter\((\d{1,9})\)")
_INDEX = re.compile(r"\bindex=(\d{1,9})\b")
_BRANCHES = re.compile(
    r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%?[\w.-]+))"
)
_LOOP = re.compile(r"(condition|body)=%?([\w.-]+)")

# The custom calls within fusions that start or end a collective on a TPU.
_STARTS, _ENDS = '"AsyncCollectiveStart"', '"AsyncCollectiveDone"'

_CALLS = ("fusion", "call", "custom-call")
# Instructions whose result is their first operand.
_PASSES_ON = {"bitcast", "copy", "opt-barrier", "add-dependency"}

# Compilers nest computations a few deep, and hand few collectives in progress from one to another:
# most computations are read once.
_MOST_DEPTH = 100
_MOST_READINGS, _LINES_OF_ANY = 8, 10_000


@dataclass(frozen=True)
class Started:
    """Collectives that were started together: what they are, and the work since then."""

    counts: Counts
    work: Mapping[str, int]


@dataclass(frozen=True)
class Run:
    """What one run of a computation does.

    `counts` has the collectives that it starts and ends, `started` those that it hands on in its
    result, which carries `result`. `ended` has the chains among those handed to the computation
    that it waits for, and the work that it does before.
    """

    counts: Counts
    result: Flow = NO_CHAINS
    started: Mapping[Chain, Started] = field(default_factory=dict)
    ended: Mapping[Chain, Mapping[str, int]] = field(default_factory=dict)


_NOTHING = Run({})


@dataclass
class _Scope:
    """One computation while it is read.

    `flows` has the values that carry chains; `open` those chains that were started here, with the
    line of their start.
    """

    name: str
    lines: tuple[Instruction, ...]
    inputs: Sequence[Flow]
    flows: dict[str, Flow] = field(default_factory=dict)
    open: dict[Chain, tuple[int, Started]] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    ended: dict[Chain, Mapping[str, int]] = field(default_factory=dict)

    @functools.cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        return {line.bare_name: line for line in self.lines}

    @functools.cached_property
    def _work(self) -> Work:
        return Work(self.lines)

    def operands(self, line: Instruction) -> list[Flow]:
        """Return what each operand carries; an empty list where no value here carries anything."""
        if not self.flows:
            return []
        return [self.flows.get(name, NO_CHAINS) for name in line.operands]

    def carry(self, line: Instruction, flow: Flow) -> None:
        if flow:
            self.flows[line.bare_name] = flow

    def start(self, at: int, chain: Chain, started: Started) -> None:
        self.open[chain] = at, started

    def end(self, at: int, chain: Chain, work: Mapping[str, int] | None = None) -> None:
        """End `chain` in line `at`, which does `work` before. It ends once, however often awaited.

        A chain that is not open was handed in, or its loop has accounted for it.
        """
        if chain in self.open:
            begin, started = self.open.pop(chain)
            meanwhile = self._work.between(begin + 1, at)
            meanwhile.update(started.work)
            meanwhile.update(work or {})
            merge(self.counts, ended(started.counts, meanwhile))
        elif chain not in self.ended:
            before = self._work.between(0, at)
            before.update(work or {})
            self.ended[chain] = before

    def finished(self) -> Run:
        """Return the run. A started collective that nothing can wait for is synchronous."""
        root = next((line for line in self.lines if line.is_root), *self.lines[-1:])
        result = self.flows.get(root.bare_name, NO_CHAINS)
        leaving = chains_of(result)
        started = {}
        for chain, (at, one) in self.open.items():
            if chain in leaving:
                work = self._work.between(at + 1, len(self.lines))
                work.update(one.work)
                started[chain] = replace(one, work=work)
            else:
                merge(self.counts, ended(one.counts, {}))
        return Run(self.counts, result, started, self.ended)


@dataclass
class Computations:
    """Reads the computations of `module`, whose single instructions `describe` describes."""

    module: Module
    describe: Lines
    trips: Trips
    _runs: dict[tuple[str, tuple[Flow, ...]], Run] = field(default_factory=dict)
    _lines_read: int = 0
    _calling: list[str] = field(default_factory=list)

    @functools.cached_property
    def _most_lines(self) -> int:
        return _MOST_READINGS * sum(map(len, self.module.computations.values())) + _LINES_OF_ANY

    def entry(self) -> Counts:
        """Return what a run of the program runs. Raises ProgramError."""
        run = self.run(self.module.entry)
        counts = dict(run.counts)
        for started in run.started.values():
            merge(counts, ended(started.counts, {}))
        return counts

    def run(self, name: str, inputs: Sequence[Flow] = ()) -> Run:
        """Return what a run of this computation does; its parameters carry `inputs`."""
        key = name, tuple(inputs) if any(inputs) else ()
        if key not in self._runs:
            if name in self._calling or len(self._calling) > _MOST_DEPTH:
                raise ProgramError(f"the computation {name[:60]} calls itself, or nests too deep")
            self._lines_read += len(self.module.computations.get(name, ()))
            if self._lines_read > self._most_lines:
                raise ProgramError(
                    "its computations hand on collectives in progress in too many ways"
                )
            self._calling.append(name)
            self._runs[key] = self._read(name, key[1])
            self._calling.pop()
        return self._runs[key]

    def _read(self, name: str, inputs: Sequence[Flow]) -> Run:
        lines = self.module.computations.get(name, ())
        if not lines:
            return _NOTHING
        scope = _Scope(name, lines, inputs)
        fused_starts = _operands_of_starts(lines)
        for at, line in enumerate(lines):
            if line.op == "while":
                self._loop(scope, at, line)
            elif line.op == "conditional":
                self._branches(scope, at, line)
            elif line.collective:
                is_start = line.begins or line.bare_name in fused_starts
                self._collective(scope, at, line, is_start=is_start)
            elif line.op.endswith("-start"):
                self._asynchronous_call(scope, at, line)
            elif line.op in _CALLS and line.called:
                self._call(scope, at, line)
            elif inputs or scope.flows:
                _pass_on(scope, at, line)
        return scope.finished()

    def _collective(self, scope: _Scope, at: int, line: Instruction, *, is_start: bool) -> None:
        """Count a collective, or start it; one that takes a chain of its kind continues this."""
        taken = _joined(scope.operands(line))
        same = frozenset(chain for chain in taken if chain.kind == line.collective)
        if same:
            scope.carry(line, same)
            return
        counts = self.describe.placed(scope.by_name, line, self.describe.collective(line))
        if is_start:
            self._start(scope, at, line, counts)
        else:
            merge(scope.counts, counts)

    def _start(self, scope: _Scope, at: int, line: Instruction, counts: Counts) -> None:
        chain, waits = Chain(line.collective), line.is_waited_for_at_once
        counts = {replace(use, asynchronous=not waits): count for use, count in counts.items()}
        scope.start(at, chain, Started(counts, {}))
        scope.carry(line, frozenset({chain}))

    def _asynchronous_call(self, scope: _Scope, at: int, line: Instruction) -> None:
        """Start what a computation of its own runs, such as ``async-start`` and ``call-start``."""
        counts: Counts = {}
        for name in line.called:
            run = self.run(name)
            merge(counts, run.counts)
            for started in run.started.values():
                merge(counts, started.counts)
        if counts:
            counts = self.describe.called(line, counts)
            self._start(scope, at, line, self.describe.placed(scope.by_name, line, counts))

    def _call(self, scope: _Scope, at: int, line: Instruction) -> None:
        operands = scope.operands(line)
        result: Flow = NO_CHAINS
        for name in line.called:
            run = self.run(name, operands)
            is_scattered = line.op == "fusion" and self.describe.scatters(name)
            result = either(result, self._adopted(scope, at, line, run, is_scattered=is_scattered))
        scope.carry(line, result)

    def _adopted(
        self, scope: _Scope, at: int, line: Instruction, run: Run, *, is_scattered: bool = False
    ) -> Flow:
        """Take over what a called computation ran, started and ended; return its result's flow.

        A fusion is one operation: what it computes beside a collective hides none of its own.
        """

        def described(counts: Counts) -> Counts:
            counts = self.describe.called(line, counts, is_scattered=is_scattered)
            return self.describe.placed(scope.by_name, line, counts)

        merge(scope.counts, described(run.counts))
        new = {chain: Chain(chain.kind) for chain in run.started}
        for chain, started in run.started.items():
            work = {} if line.op == "fusion" else started.work
            scope.start(at, new[chain], Started(described(started.counts), work))
        for chain, work in run.ended.items():
            scope.end(at, chain, {} if line.op == "fusion" else work)
        return renamed(run.result, new)

    def _branches(self, scope: _Scope, at: int, line: Instruction) -> None:
        """Count what each branch may run; a collective ends where the least work is before it."""
        operands = scope.operands(line)[1:]
        result: Flow = NO_CHAINS
        ends: dict[Chain, Mapping[str, int]] = {}
        for number, name in enumerate(_names_of_branches(line)):
            run = self.run(name, operands[number : number + 1])
            run = replace(
                run,
                counts=taken_at_most(run.counts),
                started={
                    chain: replace(started, counts=taken_at_most(started.counts))
                    for chain, started in run.started.items()
                },
            )
            for chain, work in run.ended.items():
                ends[chain] = min(ends.get(chain, work), work, key=lambda one: sum(one.values()))
            adopted = self._adopted(scope, at, line, replace(run, ended={}))
            result = either(result, adopted)
        for chain, work in ends.items():
            scope.end(at, chain, work)
        scope.carry(line, result)

    def _loop(self, scope: _Scope, at: int, line: Instruction) -> None:
        """Count each turn of a loop, through which collectives in progress may pass."""
        parts = dict(_LOOP.findall(line.text))
        entering: Flow = next(iter(scope.operands(line)), NO_CHAINS)
        body = self.run(parts.get("body", ""), [entering])
        if either(entering, body.result) != entering:
            # A turn may take a chain in another place than the turn before it.
            body = self.run(parts.get("body", ""), [either(entering, body.result)])
        # What a turn starts and hands on is continued or awaited by the next one.
        following = self.run(parts.get("body", ""), [body.result]) if body.started else body
        counts = dict(body.counts)
        for chain, started in body.started.items():
            work = Counter(started.work)
            work.update(following.ended.get(chain, {}))
            merge(counts, ended(started.counts, work))
        checked = self.run(parts.get("condition", ""), [entering]).counts
        trips = self.trips.of(scope.name, line) if counts or checked or body.ended else 0
        merge(scope.counts, multiplied(counts, trips))
        merge(scope.counts, multiplied(checked, None if trips is None else trips + 1))
        for chain, before in body.ended.items() if trips != 0 else ():
            scope.end(at, chain, before)
        scope.carry(line, either(entering, body.result))


def _pass_on(scope: _Scope, at: int, line: Instruction) -> None:
    """Carry chains through instructions that compute nothing, and end those that are awaited."""
    if line.op == "parameter":
        number = int(_match(_NUMBER, line.text))
        scope.carry(line, scope.inputs[number] if number < len(scope.inputs) else NO_CHAINS)
        return
    operands = scope.operands(line)
    if not any(operands):
        return
    if line.op == "tuple":
        scope.carry(line, tuple_of(operands))
    elif line.op == "get-tuple-element":
        scope.carry(line, element_of(operands[0], int(_match(_INDEX, line.text))))
    elif line.op in _PASSES_ON:
        scope.carry(line, operands[0])
    elif line.op.endswith("-update") or (line.op == "custom-call" and _STARTS in line.text):
        scope.carry(line, _joined(operands))
    elif line.op.endswith("-done") or (line.op == "custom-call" and _ENDS in line.text):
        for chain in _joined(operands):
            scope.end(at, chain)


def _operands_of_starts(lines: Sequence[Instruction]) -> set[str]:
    """Return the names of what ``AsyncCollectiveStart`` takes, through bitcasts and tuples."""
    names = [name for line in lines if _STARTS in line.text for name in line.operands]
    if not names:
        return set()
    by_name = {line.bare_name: line for line in lines}
    found: set[str] = set()
    while names:
        name = names.pop()
        if name in by_name and name not in found:
            found.add(name)
            names += () if by_name[name].collective else by_name[name].operands
    return found


def _names_of_branches(line: Instruction) -> list[str]:
    """Return the branches in the order of their operands."""
    found = _BRANCHES.findall(line.text)
    return [
        name.strip().lstrip("%") for several, one in found for name in (several or one).split(",")
    ]


def _joined(flows: Sequence[Flow]) -> Chains:
    return chains_of(tuple(chains_of(flow) for flow in flows))


def _match(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else "0"
