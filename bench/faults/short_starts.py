"""A plugin of pytest: workers that do not start fail after 20 seconds in place of three minutes."""

from busbw.driver import executor

executor.START_TIMEOUT_S = executor.PROBE_TIMEOUT_S = 20.0
