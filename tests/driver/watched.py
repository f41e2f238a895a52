"""Workers that tell what the driver does with them; otherwise those of this host."""

from __future__ import annotations

from collections.abc import Callable

from busbw.driver.bundle import Bundle
from busbw.driver.local import LocalTransport, Worker
from busbw.driver.transport import Request, Starter
from busbw.model.launch import LaunchId
from busbw.model.training import ClusterMember

# Gets the worker, and ``start``, ``listen``, ``end`` (however it ends) or the name of a request.
OnEvent = Callable[[Worker, str], None]


class Watched(LocalTransport):
    """Tells of every worker that it starts; what `on_event` raises comes where the event does."""

    def __init__(self, bundle: Bundle, on_event: OnEvent) -> None:
        super().__init__(bundle)
        self._on_event = on_event

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        """One that is watched."""
        worker = _WatchedWorker(starter, self._bundle, launch, member)
        worker.on_event = self._on_event
        self._on_event(worker, "start")
        return worker


class _WatchedWorker(Worker):
    on_event: OnEvent
    is_over = False

    def send(self, request: Request | None) -> None:
        """Tell of the request first."""
        self.on_event(self, request.name if request else "listen")
        super().send(request)

    def close(self) -> bool:
        """Tell first that it is to end."""
        self._tell_end()
        return super().close()

    def kill(self) -> None:
        """Tell that it ends, unless it has been told already."""
        self._tell_end()
        super().kill()

    def _tell_end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.on_event(self, "end")
