"""The entry point of a worker: the driver runs this module in a process of its own.

The module prepares the process before a framework is imported, because frameworks read the
environment variables when they start.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from typing import TextIO


def main() -> None:
    """Prepare this worker process, and answer requests until the driver closes the channel."""
    # Imported modules never become garbage, and collecting garbage would take a sixth of the time
    # to import TensorFlow. `_serve` enables the collector again.
    gc.disable()
    from busbw.worker import process

    options = _parser().parse_args()
    process.end_with_parent(options.parent)
    process.set_framework_variables(options.device)
    process.prepare_for_failures(options.device)
    # The channel carries JSON, which is UTF-8 in every locale.
    requests = os.fdopen(options.socket, "r", encoding="utf-8")
    replies = os.fdopen(os.dup(options.socket), "w", encoding="utf-8")
    with requests, replies:
        _serve(options, requests, replies)


def _serve(options: argparse.Namespace, requests: TextIO, replies: TextIO) -> None:
    """Open the service that the command line names, and answer the requests for the service.

    A service is the work of a worker, such as measuring cases. If the service cannot be opened, or
    if a request is invalid, print the reason to stderr and exit with code 1.

    Args:
        options: the values of the worker's command line, as `_parser` declares them.
        requests: the stream of requests from the driver.
        replies: the stream of replies to the driver.

    """
    from busbw import wire
    from busbw.worker import host
    from busbw.worker.backends.base import MeasuringError
    from busbw.worker.serve import SERVICES, load_function, serve

    try:
        if options.member:
            os.environ.update(host.shared_gpu_variables(options.member, os.environ))
        worker = load_function(SERVICES, "WORKER_SERVICES", options.service)(options)
        # The collector never examines the modules that are imported now.
        gc.freeze()
        gc.enable()
        serve(requests, replies, worker, options.launch)
    except (MeasuringError, wire.WireError) as error:
        # The driver shows the last line of the log: a sentence is more useful than a traceback.
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    """Return the parser of a worker's command line."""
    from busbw import wire
    from busbw.model.launch import LaunchId
    from busbw.model.machine import GroupMember
    from busbw.model.words import DeviceClass

    parser = argparse.ArgumentParser(prog="busbw.worker")
    parser.add_argument("--framework", required=True)
    parser.add_argument("--service", default="measure", help="a name in a table of services")
    parser.add_argument("--device", type=DeviceClass, help="cpu, gpu or tpu; any if it is left out")
    parser.add_argument("--ranks", type=int, default=None)
    parser.add_argument(
        "--member",
        type=lambda text: wire.from_json(GroupMember, wire.parse_json(text), "member"),
        help="index and addresses in a group of processes, in JSON",
    )
    parser.add_argument("--launch", type=LaunchId.parse, required=True)
    parser.add_argument("--parent", type=int, required=True, help="process id of the driver")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of the channel")
    return parser


if __name__ == "__main__":
    main()
