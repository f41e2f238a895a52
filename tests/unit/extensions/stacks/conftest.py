"""Interpreters and an index of small wheels, for each test that asks for them."""

from tests.helpers.wheels import machine

__all__ = ["machine"]
