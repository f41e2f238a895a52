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

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.transport import Request, Starter, T
from busbw.model.case import Case
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import EnvironmentKey

from .worker_values import Compiled, CompiledBaseline, Compiler, Topology


@dataclass(frozen=True, kw_only=True)
class Job:
    """A case to be compiled for one topology by `compiler`, and what is stored of it."""

    case: Case
    topology: Topology
    key: EnvironmentKey
    compiler: str = ""
    stored: CompiledBaseline | None = field(default=None, compare=False)


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
    say: Callable[[str], None] = lambda text: None
    results: dict[Job, Compiled | Failure] = field(default_factory=dict)
    # By thread and compiler.
    _groups: dict[tuple[int, str], Group] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def describe(self, compiler: str, topologies: Sequence[Topology]) -> list[Compiler]:
        """Return the compiler for each topology; where a worker ended, `missing` says how."""
        compilers = []
        with self.executor:
            for topology in topologies:
                request = Request("describe", Compiler, {"topology": topology})
                answer = self._answer(compiler, request, "starting the compiler")
                if isinstance(answer, Failure):
                    answer = Compiler(topology=topology.name, missing=answer.message)
                compilers.append(answer)
        return compilers

    def run(self, jobs: Sequence[Job]) -> None:
        """Compile all jobs; `results` has each as soon as it exists, also after an interrupt."""
        with self.executor, ThreadPoolExecutor(max(1, min(self.workers, len(jobs)))) as threads:
            try:
                for job, answer in zip(jobs, threads.map(self._compiled, jobs)):
                    self.results[job] = answer
                    names = f"{job.case.name} for {job.topology.name}"
                    self.say(f"busbw: compiled {len(self.results)}/{len(jobs)}: {names}")
            except BaseException:
                self.executor.stop()
                raise

    def _compiled(self, job: Job) -> Compiled | Failure:
        cache = str(self.cache) if self.cache else ""
        values = {"topology": job.topology, "case": job.case, "cache": cache}
        return self._answer(job.compiler, Request("compile", Compiled, values), "compiling")

    def _answer(self, compiler: str, request: Request[T], doing: str) -> T | Failure:
        """Return what this thread's worker answers; another one is started if it has ended."""
        place = threading.get_ident(), compiler
        if place not in self._groups or self._groups[place].is_over:
            launch = LaunchId(name=f"compile-{next(self._numbers)}")
            group = self.executor.open_group(self.starters[compiler], launch)
            if isinstance(group, Failure):
                return group
            self._groups[place] = group
        return self._groups[place].ask(request, self.timeout_s, doing)
