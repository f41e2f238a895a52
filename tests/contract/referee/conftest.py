"""Nothing is collected here unless BUSBW_REFEREE is set: a test that skips looks green."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("BUSBW_REFEREE") else ["test_xprof.py"]
