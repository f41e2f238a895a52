"""The worker's entry point, started by the driver; prepares before anything heavy is imported."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from busbw.worker.serve import Channel


def main() -> None:
    """Prepare this process, and serve requests."""
    # What is imported is no garbage; collection is enabled once the session is open.
    gc.disable()
    from busbw.model.words import Device
    from busbw.worker import process

    options = _parser().parse_args()
    options.device = Device(options.device) if options.device else None
    process.tie_to_parent(options.parent)
    process.prepare(options.device)
    process.offer_to_oom_killer(options.device)
    process.answer_signals()
    from busbw.worker.serve import Channel

    # JSON is UTF-8 whatever the locale says.
    requests = os.fdopen(options.socket, "r", encoding="utf-8")
    replies = os.fdopen(os.dup(options.socket), "w", encoding="utf-8")
    with requests, replies:
        _serve(Channel(requests=requests, replies=replies), options)


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Import without collecting garbage, which takes a sixth of TensorFlow's import.

    What was imported is never collected.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _serve(channel: Channel, options: argparse.Namespace) -> None:
    from busbw import wire
    from busbw.model.cluster import ClusterMember
    from busbw.model.launch import LaunchId
    from busbw.worker import sharing
    from busbw.worker.backends.base import MeasuringError
    from busbw.worker.serve import SERVICES, function_of, serve

    options.launch = LaunchId.parse(options.launch)
    try:
        if options.member:
            member = wire.parsed(options.member)
            options.member = wire.from_json(ClusterMember, member, "member")
            sharing.prepare(options.member)
        with without_garbage_collection():
            session = function_of(SERVICES, "WORKER_SERVICES", options.service)(options)
        serve(channel, session, options.launch)
    except (MeasuringError, wire.WireError) as error:
        # The driver shows a log's last line: one sentence, and no stack above it.
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(prog="busbw.worker")
    parser.add_argument("--framework", required=True)
    parser.add_argument("--service", default="measure", help="the session that it opens")
    parser.add_argument("--device", default="", help="cpu, gpu or tpu; empty: whatever there is")
    parser.add_argument("--ranks", type=int, default=None)
    parser.add_argument("--member", help="index and addresses in a cluster, in JSON")
    parser.add_argument("--launch", default="")
    parser.add_argument("--parent", type=int, required=True, help="process id of the driver")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of the channel")
    return parser


if __name__ == "__main__":
    main()
