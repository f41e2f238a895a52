"""A bundle for the tests of agents, which is sent to them; no worker may be left."""

from __future__ import annotations

from tests.unit.driver.conftest import bundle, nothing_left

__all__ = ["bundle", "nothing_left"]
