"""The channel to the driver: a request, a reply to it, until the driver closes its end.

One JSON document a line. stdout and stderr are a log and carry no reply. What a request asks for
is in `serve`, `compilers` and `members`, none of which imports another: a worker is one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar

from busbw import wire, workloads

T = TypeVar("T")

# A case is read by the workload that it names, which must have been imported.
_READABLE = workloads.WORKLOADS


@dataclass(frozen=True)
class Channel:
    """The private channel to the driver."""

    requests: TextIO
    replies: TextIO

    def received(self) -> Iterator[dict[str, Any]]:
        """Requests until the driver closes its end. Raises WireError for what is none."""
        try:
            for line in self.requests:
                request = wire.parsed(line)
                if not isinstance(request, dict):
                    raise wire.WireError("request: expected an object")
                yield request
        except UnicodeDecodeError as error:
            raise wire.WireError(f"request: byte {error.start}: not UTF-8") from error

    def send(self, name: str, value: Any) -> None:
        """One reply, out at once."""
        self.replies.write(json.dumps({"reply": name, "value": wire.to_json(value)}) + "\n")
        self.replies.flush()


def part(request: dict[str, Any], name: str, kind: type[T]) -> T:
    """The value `name` of a request. Raises WireError where it is missing or no `kind`."""
    if name not in request:
        raise wire.WireError(f"{name}: missing")
    return wire.from_json(kind, request[name], name)
