"""Cases compiled for topologies: several workers at once, each with one case at a time.

Compiling is not timed, so it may use all cores. A compiler that crashes or hangs costs one process
and one case; a new worker takes the rest.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from busbw.driver.executor import Executor, ProbeCutShort, started_again, stopped, words_of
from busbw.driver.group import Group
from busbw.driver.transport import Request, Starter
from busbw.model.case import Case
from busbw.model.launch import Compiled, Failure, LaunchId
from busbw.model.machine import Compiler, Topology


@dataclass(frozen=True, kw_only=True)
class Job:
    """A case to be compiled for one topology by the compiler `compiler`."""

    case: Case
    topology: Topology
    compiler: str = ""


@dataclass
class Parallel:
    """Compiles with up to `workers` processes at once; `starters` has one Starter per compiler.

    `cache` is the folder where programs are cached between sessions, None for none. However it
    ends, no worker is left.
    """

    executor: Executor
    starters: Mapping[str, Starter]
    workers: int
    timeout_s: float
    cache: Path | None = None
    on_progress: Callable[[int, int, Job], None] = lambda done, total, job: None
    results: dict[Job, Compiled | Failure] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def describe(self, compiler: str, topologies: Sequence[Topology]) -> list[Compiler]:
        """Where a worker crashed, `missing` says so. Raises ProbeCutShort after two in a row."""
        found = []
        with self.executor:
            group: Group | Failure | None = None
            for topology in topologies:
                group = group or self._opened(compiler)
                answer = self._described(group, topology)
                if isinstance(answer, Failure) and isinstance(group, Group) and stopped(answer):
                    self.executor.on_note(started_again(answer))
                    group = self._opened(compiler)
                    answer = self._described(group, topology)
                if isinstance(answer, Failure):
                    if stopped(answer):
                        raise ProbeCutShort(f"{words_of(answer)}; it was tried twice")
                    answer = Compiler(topology=topology.name, missing=words_of(answer))
                found.append(answer)
                group = None if answer.missing else group
        return found

    def run(self, jobs: Sequence[Job]) -> None:
        waiting = iter(jobs)
        size = max(1, min(self.workers, len(jobs)))
        with self.executor, ThreadPoolExecutor(size) as threads:
            try:
                done = [threads.submit(self._work, waiting, len(jobs)) for _ in range(size)]
                for one in done:
                    one.result()
            except BaseException:
                self.executor.stop()
                raise

    def _described(self, group: Group | Failure, topology: Topology) -> Compiler | Failure:
        if isinstance(group, Failure):
            return group
        request = Request("describe", Compiler, {"topology": topology})
        return group.ask(request, self.timeout_s, "starting the compiler")

    def _work(self, waiting: Iterator[Job], total: int) -> None:
        groups: dict[str, Group] = {}
        try:
            while not self.executor.is_stopped:
                with self._lock:
                    job = next(waiting, None)
                if job is None:
                    return
                answer = self._compiled(job, groups)
                with self._lock:
                    if self.executor.is_stopped:
                        return
                    self.results[job] = answer
                    self.on_progress(len(self.results), total, job)
        finally:
            for group in groups.values():
                self.executor.end(group)

    def _compiled(self, job: Job, groups: dict[str, Group]) -> Compiled | Failure:
        group = groups.get(job.compiler) or self._opened(job.compiler)
        if isinstance(group, Failure):
            return group
        groups[job.compiler] = group
        cache = str(self.cache) if self.cache else ""
        values = {"topology": job.topology, "case": job.case, "cache": cache}
        request = Request("compile", Compiled, values)
        answer = group.ask(request, self.timeout_s, "compiling")
        if group.is_over:
            self.executor.end(groups.pop(job.compiler))
        return answer

    def _opened(self, compiler: str) -> Group | Failure:
        with self._lock:
            launch = LaunchId(name=f"compile-{next(self._numbers)}")
        return self.executor.opened(self.starters[compiler], launch)
