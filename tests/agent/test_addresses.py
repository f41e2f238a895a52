"""Addresses as text and as numbers."""

from __future__ import annotations

import pytest

from busbw.agent.handshake import (
    address_of,
    address_text,
    is_any,
    is_loopback,
    number_of,
    split_address,
)


def test_an_address_with_colons_has_brackets() -> None:
    assert address_text("10.0.0.1", 4000) == "10.0.0.1:4000"
    assert address_text("fe80::1", 4000) == "[fe80::1]:4000"


@pytest.mark.parametrize("address", [("10.0.0.1", 4000), ("fe80::1", 4000), ("host-a", 1)])
def test_what_is_written_is_read_again(address: tuple[str, int]) -> None:
    assert split_address(address_text(*address)) == address


@pytest.mark.parametrize("text", ["here", "here:", "here:x", "here:65536", "here:-1", "here:0"])
def test_what_has_no_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="accepted is HOST:PORT"):
        split_address(text, least_port=1)


def test_a_name_is_looked_up() -> None:
    assert number_of("localhost") in ("127.0.0.1", "::1")
    assert address_of("127.0.0.1:0") == ("127.0.0.1", 0)
    with pytest.raises(ValueError, match="there is no host"):
        address_of("no.such.host.invalid:1")


@pytest.mark.parametrize(
    ("number", "any_network", "loopback"),
    [
        ("0.0.0.0", True, False),
        ("::", True, False),
        ("::ffff:0.0.0.0", True, False),
        ("127.0.1.1", False, True),
        ("::1", False, True),
        ("::ffff:127.0.0.1", False, True),
        ("10.0.0.1", False, False),
        ("fe80::1%eth0", False, False),
    ],
)
def test_addresses_that_stand_for_all_or_only_this_host_are_told(
    number: str, any_network: bool, loopback: bool
) -> None:
    assert (is_any(number), is_loopback(number)) == (any_network, loopback)
