"""The functions of extensions that the core calls by name."""

from __future__ import annotations

from busbw.extensions import hooks


def test_a_hook_is_the_function_that_an_extension_declares() -> None:
    (check,) = hooks("check_reference")
    assert (check.__module__, check.__name__) == ("busbw.extensions.stacks.reference", "check")
    assert hooks("none") == []
