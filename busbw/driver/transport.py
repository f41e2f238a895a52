"""Where processes run: how a worker is started there, and what the driver needs of a running one.

One file for each kind of place implements this; groups and schedules know nothing else of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.model import Capability, Cluster, LaunchId, Place

from .replies import Ended, Reply


@dataclass(frozen=True, kw_only=True)
class Starter:
    """How to start a worker: which interpreter, for which framework, capability and device.

    `environment` is added to pytest's own, and holds under every interpreter. `defaults` are
    variables by capability, which hold where neither says anything else.
    """

    python: str
    framework: str
    capability: Capability = Capability.MEASURE
    device: str = ""
    ranks: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[Capability, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What a worker is asked for by name, such as ``measure``, and the values that go with it."""

    name: str
    values: Mapping[str, object] = field(default_factory=dict)


class Member(ABC):
    """A running worker. Every way out ends the process, whatever it is doing."""

    launch: LaunchId

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor of the replies, so that `select` can watch several workers at once."""

    @abstractmethod
    def send(self, request: Request | None) -> None:
        """Send `request` (None: just listen) and wait for nothing: what it gives is `received`."""

    @abstractmethod
    def received(self) -> Reply | Ended | None:
        """What there is to read, once `select` says so; None while a reply is not whole.

        An Ended at the end of the channel, and for anything that is not the reply to what was
        asked; the process is over then.
        """

    @abstractmethod
    def timed_out(self) -> Ended:
        """Have the worker print its stack into the log, then kill it."""

    @abstractmethod
    def close(self) -> bool:
        """Let the worker end by itself; kill it if it does not. Whether it did."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the process from another thread than the one that asks, which then sees its end."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker, and what it started, and wait for it."""


class Transport(ABC):
    """A kind of place where workers run."""

    @abstractmethod
    def places(self, cluster: Cluster) -> tuple[Place, ...]:
        """Where the members of `cluster` are, with addresses by which they reach each other."""

    @abstractmethod
    def start(self, starter: Starter, launch: LaunchId, place: Place | None) -> Member:
        """A worker at `place`; None: by itself."""
