"""The worker's door: ``python BUNDLE --framework=jax ...``, started by the driver only.

Prepares the process (environment, ties to the parent) before anything heavy is imported, and
starts it anew, if it must, before anything is.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from busbw.worker import huge_pages

if TYPE_CHECKING:
    import argparse


def main() -> None:
    """Serve requests until the driver closes the channel."""
    huge_pages.ask_for()
    from busbw.model import Device
    from busbw.worker import environ, guard

    options = _parser().parse_args()
    device = Device(options.device) if options.device else None
    guard.tie_to_parent(options.parent)
    environ.prepare(options.framework, device)
    guard.offer_to_oom_killer(device)
    guard.answer_signals()
    from busbw.worker.backends import COMPILERS, TRAINERS, load, load_compiler, load_trainer
    from busbw.worker.backends.base import MeasuringError
    from busbw.worker.members import serve_trainer
    from busbw.worker.serve import Channel, serve, serve_compiler

    with os.fdopen(options.requests, "r") as requests, os.fdopen(options.replies, "w") as replies:
        channel = Channel(requests=requests, replies=replies)
        if options.framework in COMPILERS:
            serve_compiler(channel, load_compiler(options.framework), launch=options.launch)
            return
        try:
            if options.framework in TRAINERS:
                serve_trainer(channel, load_trainer(options.framework), launch=options.launch)
                return
            backend = load(options.framework, device, options.ranks)
        except MeasuringError as error:
            # The driver shows a log's last line: one sentence, and no stack above it.
            sys.exit(str(error))
        serve(channel, backend, launch=options.launch)


def _parser() -> argparse.ArgumentParser:
    import argparse

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
