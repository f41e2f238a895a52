"""The options of compile-only checks."""

from __future__ import annotations

from busbw.session.option import Option

_GROUP = "busbw: compile without hardware, measure nothing"

TOPOLOGY = Option(
    name="topology",
    group=_GROUP,
    metavar="LIST",
    help="Measure nothing: compile the same programs for chips that need not be attached, and "
    "compare the result with the compiled programs in the baselines. Example: "
    "--topology=v5e:2x4,tpu7x:2x2x1,h100:8. all, tpu and gpu select one topology for each "
    "chip, each TPU or each GPU. With --program all collectives of the program are listed and "
    "compared",
)
LIBTPU = Option(
    name="libtpu",
    group=_GROUP,
    needs="topology",
    metavar="LIST",
    help="With --topology: compile for TPUs with these releases of libtpu, as a comma list of "
    "versions and paths, and compare them with one another. uv downloads each version once",
)
COMPILE_CACHE = Option(
    name="compile_cache",
    group=_GROUP,
    needs="topology",
    metavar="DIR",
    help="With --topology: keep compiled programs and downloaded compilers in DIR; none keeps "
    "nothing (default: busbw in the user's cache folder)",
)
ACCEPT_CHANGES = Option(
    name="accept_compiled_changes",
    group=_GROUP,
    needs="topology",
    flag=True,
    ini=False,
    help="With --topology: report a changed algorithm, but do not fail",
)
