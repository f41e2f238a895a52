"""Frames and the messages in them: what is believed, what is refused."""

from __future__ import annotations

import random
import struct

import pytest

from busbw import wire
from busbw.driver.process import Exit, Order
from busbw.hosts import messages
from busbw.hosts.connection import (
    MOST_BYTES,
    MOST_UNPROVEN_BYTES,
    Checker,
    Direction,
    FrameError,
    Sealer,
    Splitter,
    fresh_nonce,
    key_of,
)
from busbw.hosts.messages import body_of, read

SECRET = b"a secret of tests"
SESSION, AGENT = fresh_nonce(), fresh_nonce()
KEY = key_of(SECRET, Direction.TO_AGENT, SESSION, AGENT)


def opened(sent: bytes, checker: Checker | None = None) -> list[bytes]:
    """The bodies of all frames in `sent`."""
    splitter = Splitter(MOST_BYTES)
    splitter.add(sent)
    checker = checker or Checker(KEY)
    found = []
    while (frame := splitter.frame()) is not None:
        found.append(checker.checked(frame))
    return found


def test_frames_arrive_in_order_however_the_bytes_are_cut() -> None:
    sealer, splitter, checker = Sealer(KEY), Splitter(), Checker(KEY)
    bodies = [b"", b"one", bytes(range(256))]
    found = []
    for byte in b"".join(sealer.sealed(body) for body in bodies):
        splitter.add(bytes([byte]))
        frame = splitter.frame()
        if frame is not None:
            found.append(checker.checked(frame))
    assert found == bodies


def test_a_frame_that_is_repeated_left_out_or_in_another_order_is_refused() -> None:
    sealer = Sealer(KEY)
    first, second = sealer.sealed(b"kill"), sealer.sealed(b"kill")
    assert opened(first + second) == [b"kill", b"kill"]
    for sent in (first + first, second, second + first):
        with pytest.raises(FrameError, match=r"frame \d was not made with the secret"):
            opened(sent)


@pytest.mark.parametrize("at", [0, 4, 36, -1])
def test_a_frame_of_which_a_bit_was_changed_is_refused_or_never_complete(at: int) -> None:
    sent = bytearray(Sealer(KEY).sealed(b"a message"))
    sent[at] ^= 1
    try:
        assert opened(bytes(sent)) == []
    except FrameError:
        return
    assert at == 0


def test_each_direction_connection_and_secret_has_a_key_of_its_own() -> None:
    others = [
        key_of(SECRET, Direction.TO_SESSION, SESSION, AGENT),
        key_of(SECRET, Direction.TO_AGENT, fresh_nonce(), AGENT),
        key_of(SECRET, Direction.TO_AGENT, SESSION, fresh_nonce()),
        key_of(SECRET, Direction.TO_AGENT, AGENT, SESSION),
        key_of(b"another secret of tests", Direction.TO_AGENT, SESSION, AGENT),
    ]
    assert len({KEY, *others}) == 6
    for key in others:
        with pytest.raises(FrameError, match="frame 0 was not made with the secret"):
            opened(Sealer(key).sealed(b"reflected"))


def test_a_nonce_of_another_length_makes_no_key() -> None:
    with pytest.raises(FrameError, match="a nonce has 32 bytes"):
        key_of(SECRET, Direction.TO_AGENT, SESSION, AGENT[:-1])


@pytest.mark.parametrize("length", [MOST_UNPROVEN_BYTES + 1, 2**30, 2**32 - 1])
def test_a_length_above_the_limit_is_refused_before_anything_of_the_body_is_there(
    length: int,
) -> None:
    splitter = Splitter()
    splitter.add(struct.pack(">I", length))
    with pytest.raises(FrameError, match=f"a frame of {length} bytes; the most is 1024"):
        splitter.frame()


def test_a_frame_of_the_longest_body_is_taken_and_a_longer_one_cannot_be_made() -> None:
    assert opened(Sealer(KEY).sealed(b"x" * MOST_BYTES)) == [b"x" * MOST_BYTES]
    with pytest.raises(ValueError, match="a frame of 1048577 bytes"):
        Sealer(KEY).sealed(b"x" * (MOST_BYTES + 1))


def test_random_bytes_are_no_frame() -> None:
    draw = random.Random(19)
    for _ in range(2000):
        sent = draw.randbytes(draw.randrange(200))
        if draw.random() < 0.5:
            sent = struct.pack(">I", draw.randrange(64)) + sent
        try:
            assert opened(sent) == []
        except FrameError:
            continue


ORDER = Order(name="1.fake", arguments=("--framework=fake",), environment={"A": "\n"})
TO_AGENT = [
    messages.Welcome(protocol=1, refused="why"),
    messages.Beat(),
    messages.Files(hash="a", content="", left=0),
    messages.Lock(wait_s=1.5),
    messages.FindPorts(count=2),
    messages.Start(worker=1, order=ORDER),
    messages.Send(worker=1, line="{}", timeout_s=1.5),
    messages.AskState(worker=1),
    messages.PrintStack(worker=1),
    messages.Close(worker=1),
    messages.Kill(worker=1),
    messages.Goodbye(),
]
TO_SESSION = [
    messages.Alive(),
    messages.FilesReady(hash="a"),
    messages.Locked(why="another one"),
    messages.FreePorts(ports=(1, 2)),
    messages.Output(worker=1, content="YQ=="),
    messages.State(worker=1, is_stopped=True),
    messages.Exited(worker=1, exit=Exit(exit_code=-9, by_itself=True, log="\N{SNOWMAN}")),
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
