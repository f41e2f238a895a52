"""The loop: a request from the channel, a reply to it, until the driver closes the channel.

One JSON document a line. stdout and stderr are a log and carry no reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from busbw import wire
from busbw.model import Case, EnvironmentKey, Plan
from busbw.worker import measure
from busbw.worker.backends.base import AbstractBackend


@dataclass(frozen=True)
class Channel:
    """The private channel to the driver."""

    requests: TextIO
    replies: TextIO

    def received(self) -> Iterator[dict[str, Any]]:
        """Requests until the driver closes its end."""
        for line in self.requests:
            yield json.loads(line)

    def send(self, name: str, value: Any) -> None:
        """One reply, out at once."""
        self.replies.write(json.dumps({"reply": name, "value": wire.to_json(value)}) + "\n")
        self.replies.flush()


def serve(channel: Channel, backend: AbstractBackend, *, launch: str) -> None:
    """Answer ``probe`` and ``measure`` requests, each with exactly one reply."""
    channel.send("ready", None)
    desk = measure.Desk(backend=backend, launch=launch)
    for request in channel.received():
        if request["request"] == "probe":
            channel.send("probe", backend.probe())
        else:
            case = wire.from_json(Case, request["case"], "case")
            plan = wire.from_json(Plan, request["plan"], "plan")
            key = wire.from_json(EnvironmentKey, request["key"], "key")
            result = desk.measure(case, plan, key)
            channel.send(type(result).__name__, result)
