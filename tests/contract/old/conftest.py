"""Nothing is collected here unless BUSBW_OLD names interpreters: a test that skips looks green."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("BUSBW_OLD") else ["test_old_versions.py"]
