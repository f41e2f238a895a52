"""The worker's door: what it does around the import of a framework."""

from __future__ import annotations

import gc

import pytest

from busbw.worker.__main__ import without_garbage_collection


def test_what_is_imported_is_never_looked_through_for_garbage_and_what_comes_later_is() -> None:
    before = gc.get_freeze_count()
    with without_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    gc.unfreeze()


def test_after_an_import_that_failed_garbage_is_collected_again() -> None:
    with pytest.raises(ImportError), without_garbage_collection():
        raise ImportError
    assert gc.isenabled()
    gc.unfreeze()
