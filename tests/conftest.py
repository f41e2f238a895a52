"""What tests leave lies in pytest's folder for temporary files, and keeps no session waiting."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from busbw import locks


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders, of processes that tests start too, lie in pytest's, which removes them.

    Their sessions wait for each other, and for none of another test process or of the machine.
    """
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        patch.setenv(locks.MACHINE, folder)
        yield
