"""The channel to the driver: a request, a reply to it, until the driver closes its end.

One JSON document a line. stdout and stderr are a log and carry no reply. What a request asks for
is in `serve`, `compilers` and `members`, none of which imports another: a worker is one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from busbw import wire


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
