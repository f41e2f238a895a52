"""A bundle of workers that compile, at whose end no process of it is left."""

from __future__ import annotations

from tests.unit.driver.conftest import bundle

__all__ = ["bundle"]
