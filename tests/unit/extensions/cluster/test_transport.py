"""The start of a Host over a link: its timeout."""

from __future__ import annotations

import socket
from unittest.mock import Mock

import pytest

from busbw.driver.transport import HostError
from busbw.extensions.cluster import transport
from busbw.extensions.cluster.transport import HostConnection


def test_a_host_that_sends_nothing_is_an_error_and_its_socket_is_never_in_nonblocking_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_CONNECT_TIMEOUT_S", 0.05)
    stream, other_end = socket.socketpair()
    link = Mock(stream=stream, **{"end_reason.return_value": "it is silent"})
    with stream, other_end, pytest.raises(HostError, match="one: it is silent"):
        HostConnection("one", link, {}, {})
    assert stream.gettimeout() is None
