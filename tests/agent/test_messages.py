"""Messages: what one side writes the other one reads, and nothing that it would send itself."""

from __future__ import annotations

import pytest

from busbw import wire
from busbw.agent import messages
from busbw.agent.messages import body_of, read

ORDER = messages.Order(name="1.fake", arguments=("--framework=fake",), environment={"A": "\n"})
TO_AGENT = [
    messages.Welcome(protocol=1, refused="why"),
    messages.Beat(),
    messages.Rooms(hash="a", part="", left=0),
    messages.Lock(wait_s=1.5),
    messages.Ports(count=2),
    messages.Start(worker=1, order=ORDER),
    messages.Send(worker=1, line="{}", timeout_s=1.5),
    messages.Look(worker=1),
    messages.Stack(worker=1),
    messages.Close(worker=1),
    messages.Kill(worker=1),
    messages.Goodbye(),
]
TO_SESSION = [
    messages.Alive(),
    messages.Unpacked(hash="a"),
    messages.Locked(why="another one"),
    messages.Free(ports=(1, 2)),
    messages.Said(worker=1, content="YQ=="),
    messages.Looked(worker=1, is_stopped=True),
    messages.Over(worker=1, exit_code=-9, by_itself=True, log="\N{SNOWMAN}", oom_kills=0),
]


@pytest.mark.parametrize("message", TO_AGENT, ids=lambda one: one.kind)
def test_an_agent_reads_what_a_session_writes_and_a_session_does_not(
    message: messages.ToAgent,
) -> None:
    assert read(messages.ToAgent, body_of(message)) == message
    with pytest.raises(wire.WireError, match=r"message\.kind: expected one of alive, "):
        read(messages.ToSession, body_of(message))


@pytest.mark.parametrize("message", TO_SESSION, ids=lambda one: one.kind)
def test_a_session_reads_what_an_agent_writes_and_an_agent_does_not(
    message: messages.ToSession,
) -> None:
    assert read(messages.ToSession, body_of(message)) == message
    with pytest.raises(wire.WireError, match=r"message\.kind: expected one of welcome, "):
        read(messages.ToAgent, body_of(message))


def test_every_message_is_tried_here() -> None:
    assert {type(one) for one in TO_AGENT} == set(messages.ToAgent.__subclasses__())
    assert {type(one) for one in TO_SESSION} == set(messages.ToSession.__subclasses__())


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b'{"kind": "kill"}', b'{"kind": "kill", "worker": "1"}', b"[" * 100_000],
)
def test_what_is_no_message_is_an_error_that_says_why(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        read(messages.ToAgent, body)
