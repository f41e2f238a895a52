"""Cases compiled for topologies: several workers at once, each with one at a time.

Compiling is not timed, so that all cores may work. A compiler that crashes or hangs takes its
process with it: that costs the one case, and a new worker takes the rest.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.model import Case, Compiled, Compiler, Failure, LaunchId, Topology

from .bundle import Bundle
from .endings import Ended, failure_of
from .probe import ProbeCutShort
from .process import Starter, Worker
from .starting import ready, started_again, stopped


@dataclass(frozen=True, kw_only=True)
class Job:
    """A case to be compiled for one topology by the compiler `compiler`."""

    case: Case
    topology: Topology
    compiler: str = ""


@dataclass
class Compiling:
    """Compiles with up to `workers` processes at once; `starters` has one Starter per compiler.

    `cache` is the folder where programs are kept between sessions, None for none. Whatever ends
    it, no worker is left.
    """

    starters: Mapping[str, Starter]
    bundle: Bundle
    workers: int
    timeout_s: float
    cache: Path | None = None
    on_progress: Callable[[int, int, Job], None] = lambda done, total, job: None
    on_note: Callable[[str], None] = lambda note: None
    results: dict[Job, Compiled | Failure] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _alive: set[Worker] = field(default_factory=set)
    _stopped: bool = False
    _number: int = 0

    def describe(self, compiler: str, topologies: Sequence[Topology]) -> list[Compiler]:
        """What `compiler` is for each topology; one that a crash hides is missing, and says so.

        Raises ProbeCutShort if a worker was killed or hung, and so did another.
        """
        found = []
        with contextlib.ExitStack() as held:
            worker: Worker | Failure | None = None
            for topology in topologies:
                worker = worker or self._started(compiler, held)
                answer = self._described(worker, topology)
                if isinstance(answer, Failure) and isinstance(worker, Worker) and stopped(answer):
                    self.on_note(started_again(answer))
                    worker = self._started(compiler, held)
                    answer = self._described(worker, topology)
                if isinstance(answer, Failure):
                    if stopped(answer):
                        raise ProbeCutShort(f"{_words(answer)}; it was tried twice")
                    answer = Compiler(topology=topology.name, missing=_words(answer))
                found.append(answer)
                worker = None if answer.missing else worker
        return found

    def _described(self, worker: Worker | Failure, topology: Topology) -> Compiler | Failure:
        if isinstance(worker, Failure):
            return worker
        answer = self._asked(worker, _request("describe", topology), "starting the compiler")
        if isinstance(answer, Failure):
            return answer
        return wire.from_json(Compiler, answer[1], "compiler")

    def run(self, jobs: Sequence[Job]) -> None:
        """Compile all `jobs`; what becomes of each is in `results` as soon as it is known."""
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        size = max(1, min(self.workers, len(jobs)))
        with ThreadPoolExecutor(size) as threads:
            done = [threads.submit(self._work, waiting, len(jobs)) for _ in range(size)]
            try:
                for one in done:
                    one.result()
            except BaseException:
                self._stop()
                raise

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            alive = list(self._alive)
        for worker in alive:
            worker.interrupt()

    def _work(self, waiting: queue.SimpleQueue[Job], total: int) -> None:
        """One thread: jobs from the queue, in a worker of its own for each compiler."""
        with contextlib.ExitStack() as held:
            workers: dict[str, Worker] = {}
            while not self._stopped:
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                answer = self._compiled(job, workers, held)
                with self._lock:
                    if self._stopped:
                        return
                    self.results[job] = answer
                    self.on_progress(len(self.results), total, job)

    def _compiled(
        self, job: Job, workers: dict[str, Worker], held: contextlib.ExitStack
    ) -> Compiled | Failure:
        worker = workers.get(job.compiler) or self._started(job.compiler, held)
        if isinstance(worker, Failure):
            return worker
        workers[job.compiler] = worker
        request = _request("compile", job.topology) | {
            "case": wire.to_json(job.case),
            "cache": str(self.cache) if self.cache else "",
        }
        answer = self._asked(worker, request, "compiling")
        if isinstance(answer, Failure):
            del workers[job.compiler]
            return answer
        name, value = answer
        kind: type[Any] = Compiled if name == "Compiled" else Failure
        found: Compiled | Failure = wire.from_json(kind, value, name)
        return found

    def _started(self, compiler: str, held: contextlib.ExitStack) -> Worker | Failure:
        with self._lock:
            self._number += 1
            launch = LaunchId(name=f"compile-{self._number}")

        def start(launch: LaunchId) -> Worker:
            return held.enter_context(self._worker(self.starters[compiler], launch))

        worker, failure = ready(start(launch), start, self.on_note)
        return failure or worker

    @contextlib.contextmanager
    def _worker(self, starter: Starter, launch: LaunchId) -> Iterator[Worker]:
        worker = Worker(starter, self.bundle, launch)
        with self._lock:
            self._alive.add(worker)
            if self._stopped:
                worker.interrupt()
        try:
            yield worker
        finally:
            with self._lock:
                self._alive.discard(worker)
            worker.kill()

    def _asked(
        self, worker: Worker, request: dict[str, Any], doing: str
    ) -> tuple[str, Any] | Failure:
        answer = worker.ask(request, self.timeout_s)
        return failure_of(answer, worker.launch, doing) if isinstance(answer, Ended) else answer


def cache_folder(text: str) -> Path | None:
    """Where compiled programs are kept: ``none`` for nowhere, empty for the user's cache folder."""
    if text == "none":
        return None
    if text:
        return Path(text).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "busbw"


def _request(name: str, topology: Topology) -> dict[str, Any]:
    return {"request": name, "topology": wire.to_json(topology)}


def _words(failure: Failure) -> str:
    last = failure.log.splitlines()[-1] if failure.log else "nothing in its log"
    return f"{failure.message}: {last}"
