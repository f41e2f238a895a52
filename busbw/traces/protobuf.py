"""Protobuf's wire format, as far as reading a recording needs it: no schema, no message objects.

A field is told apart by its tag: the field's number and how it is written, in one number. What
has another tag than the one looked for is an unknown field, and skipped, as protobuf itself does.
"""

from __future__ import annotations

from collections.abc import Iterator

from .event import TraceError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def tag(number: int, written: int) -> int:
    """The tag of field `number` that is written as VARINT, FIXED64, BYTES or FIXED32."""
    return number << 3 | written


def varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends; raises TraceError if it does not."""
    value = shift = 0
    while at < end:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise TraceError(f"byte {at}: a number of more than 64 bits")
    raise TraceError(f"byte {end}: ends within a number")


def signed(value: int) -> int:
    """A number of 64 bits as the int64 that was meant."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def fields(
    content: bytes, start: int, end: int, *, cut: bool = False
) -> Iterator[tuple[int, int, int]]:
    """(tag, value, end) of each field of the message between `start` and `end`.

    The value of a VARINT is its number; of all others, the place where its bytes begin.
    Raises TraceError, with the place, for what is no message or leaves it; of one that is `cut`,
    the last field ends with it.
    """
    at = start
    while at < end:
        begun = at
        found, at = varint(content, at, end)
        written = found & 7
        if written == VARINT:
            value, at = varint(content, at, end)
        elif written == BYTES:
            length, value = varint(content, at, end)
            at = value + length
        elif written in (FIXED64, FIXED32):
            value, at = at, at + (8 if written == FIXED64 else 4)
        else:
            raise TraceError(f"byte {begun}: not a protobuf field")
        if at > end and cut and written == BYTES:
            at = end
        if at > end:
            raise TraceError(f"byte {begun}: a field goes on to byte {at}, after its end at {end}")
        yield found, value, at


def text(content: bytes, start: int, end: int) -> str:
    """The bytes as text; what is no UTF-8 becomes a mark."""
    return content[start:end].decode("utf-8", "replace")
