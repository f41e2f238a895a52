"""`python -m kills`: kill and stop processes of sessions at random, and write docs/kills.md."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import platform
import sys
import tempfile
from pathlib import Path

from busbw.worker import host

from .expected import surprises
from .faults import Fault
from .ground import ROOT, Ground
from .hits import Hit
from .layout import LAYOUTS
from .moments import Usual
from .page import page
from .session import Ran, ran, usual


def main() -> int:
    """All hits; 1 if one of them was not as expected. Nothing else may run meanwhile."""
    options = _parser().parse_args()
    layout = LAYOUTS[options.layout]
    count = layout.many if options.kills is None else options.kills
    if options.document is None and count == layout.many and options.framework == "jax":
        options.document = ROOT / "docs" / layout.page
    wanted = layout.draw(count, options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="kills-") as folder,
        layout.ground(Path(folder), options.framework) as ground,
    ):
        ground.prepare()
        found = _hit_all(ground, wanted, usual(ground))
    about = _about(options.framework)
    text = "\n".join(page(found, about=about, seed=options.seed, layout=layout)) + "\n"
    if options.document is None:
        print(text, end="")
    else:
        options.document.write_text(text, encoding="utf-8")
    return 1 if any(surprises(one) for one in found) else 0


def _hit_all(ground: Ground, wanted: tuple[Hit | Fault, ...], usual: Usual) -> list[Ran]:
    found = []
    _tell(f"undisturbed: {usual}")
    for hit in wanted:
        one = ran(ground, hit, usual)
        found.append(one)
        wrong = "; ".join(surprises(one))
        _tell(
            f"{hit.number}/{len(wanted)}: {hit.what}, {hit.how}: "
            f"exit code {one.exit_code}, {one.seconds:.0f} s" + (f": {wrong}" if wrong else "")
        )
        if wrong:
            _tell(ground.output)
    return found


def _about(framework: str) -> str:
    version = "" if framework == "fake" else f" {importlib.metadata.version(framework)}"
    return (
        f"{datetime.date.today().isoformat()}, {host.cpu_model()}, {host.cores()} cores, "
        f"Python {platform.python_version()}, {framework}{version}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kills", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--kills",
        type=int,
        help="how many (default: as many as the layout's page has)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of what is hit and when (default: 1)")
    parser.add_argument(
        "--framework", default="jax", choices=("jax", "fake"), help="fake: to try the command"
    )
    parser.add_argument(
        "--layout",
        default="single",
        choices=tuple(LAYOUTS),
        help="processes: groups of two; agents: these through local agents; hosts: with ssh over "
        "network namespaces, as root (default: single)",
    )
    parser.add_argument(
        "--document",
        type=Path,
        metavar="FILE",
        help="default: the layout's page in docs/ for as many kills with JAX, else stdout",
    )
    return parser


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
