"""The worker's door: ``python BUNDLE --framework=jax ...``, started by the driver only.

Prepares the process (environment, ties to the parent) before anything heavy is imported.
"""

from __future__ import annotations

import argparse
import os
import sys

from busbw.model import Device
from busbw.worker import environ, guard


def main() -> None:
    """Serve requests until the driver closes the channel."""
    options = _parser().parse_args()
    device = Device(options.device) if options.device else None
    guard.tie_to_parent(options.parent)
    environ.prepare(options.framework, device)
    guard.offer_to_oom_killer(device)
    guard.answer_signals()
    from busbw.wire import WireError
    from busbw.worker.backends import COMPILERS, TRAINERS, load, load_compiler, load_trainer
    from busbw.worker.backends.base import MeasuringError
    from busbw.worker.members import serve_trainer
    from busbw.worker.serve import Channel, serve, serve_compiler

    # JSON is UTF-8 whatever the locale says.
    requests = os.fdopen(options.requests, "r", encoding="utf-8")
    replies = os.fdopen(options.replies, "w", encoding="utf-8")
    with requests, replies:
        channel = Channel(requests=requests, replies=replies)
        try:
            if options.framework in COMPILERS:
                serve_compiler(channel, load_compiler(options.framework), launch=options.launch)
                return
            if options.framework in TRAINERS:
                serve_trainer(channel, load_trainer(options.framework), launch=options.launch)
                return
            serve(channel, load(options.framework, device, options.ranks), launch=options.launch)
        except (MeasuringError, WireError) as error:
            # The driver shows a log's last line: one sentence, and no stack above it.
            sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="busbw.worker")
    parser.add_argument("--framework", required=True)
    parser.add_argument("--device", default="", help="cpu, gpu or tpu; empty: whatever there is")
    parser.add_argument("--ranks", type=int, default=None)
    parser.add_argument("--launch", default="")
    parser.add_argument("--parent", type=int, required=True, help="process id of the driver")
    parser.add_argument("--requests", type=int, required=True, help="file descriptor to read")
    parser.add_argument("--replies", type=int, required=True, help="file descriptor to write")
    return parser


if __name__ == "__main__":
    main()
