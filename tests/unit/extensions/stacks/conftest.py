"""Interpreters and an index of small wheels, for each test that asks for them."""

from tests.helpers.wheels import installed, machine

__all__ = ["installed", "machine"]
