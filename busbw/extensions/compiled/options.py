"""The options of compile-only checks: `--topology` and the options that need `--topology`."""

from __future__ import annotations

from packaging.version import Version

from busbw import extensions
from busbw.session.option import Option, argument_type, parse_text

_GROUP = "busbw: compile without hardware, measure nothing"


@argument_type
def parse_topologies(text: str) -> tuple[object, ...]:
    """Return the topologies (objects of the class Topology) that the list `text` names, each once.

    The names are separated by commas. A name stands for a topology, such as ``v5e:2x4``, or for a
    set of topologies: ``all``, ``tpu`` or ``gpu``. Raises ValueError if a name is unknown.
    """
    # Sessions without --topology do not wait for the tables of chips.
    from .compilers import TOPOLOGY_SETS, parse_topology

    words = map(str.strip, text.split(","))
    names = dict.fromkeys(name for word in words for name in TOPOLOGY_SETS.get(word, (word,)))
    return tuple(map(parse_topology, names))


@argument_type
def parse_libtpu_versions(text: str) -> tuple[str, ...]:
    """Return the versions of libtpu in the list `text`, each once, normalized as in PEP 440.

    The versions are separated by commas. Raises ValueError if a version is invalid.
    """
    return tuple(dict.fromkeys(str(Version(word)) for word in text.split(",")))


TOPOLOGY = Option(
    name="topology",
    group=_GROUP,
    arguments={
        "type": parse_topologies,
        "metavar": "LIST",
        "help": "Measure nothing: compile the same programs for chips that need not be attached, "
        "and compare the result with the compiled programs in the baselines. Example: "
        "--topology=v5e:2x4,tpu7x:2x2x1,h100:8. all, tpu and gpu select one topology for each "
        "chip, each TPU or each GPU. With --program all collectives of the program are listed and "
        "compared",
    },
    # Options that say how to measure and on which devices, and options of measured baselines.
    excludes=(
        *("device", "ranks", "processes", "ranks_per_process", "hosts", "cluster", "launches"),
        *("time_budget", "fail_above", "against", "against_env", "try_env", "inject", "history"),
        *("memory_limit", "accept_regression", "prune_baselines", "soak", "require_signature"),
        *extensions.names_in_extension_tables("VIEWS"),
    ),
    exclusion_reason="which measures nothing",
)
LIBTPU = Option(
    name="libtpu",
    group=_GROUP,
    needs="topology",
    arguments={
        "type": parse_libtpu_versions,
        "metavar": "LIST",
        "help": "With --topology: compile for TPUs with these versions of libtpu, as a comma list, "
        "and compare them with one another. uv downloads each version once",
    },
)
COMPILE_CACHE = Option(
    name="compile_cache",
    group=_GROUP,
    needs="topology",
    arguments={
        "type": parse_text,
        "metavar": "DIR",
        "help": "With --topology: keep compiled programs and downloaded compilers in DIR; none "
        "keeps nothing (default: busbw in the user's cache folder)",
    },
)
ACCEPT_CHANGES = Option(
    name="accept_compiled_changes",
    group=_GROUP,
    needs="topology",
    arguments={
        "action": "store_true",
        "help": "With --topology: report a changed algorithm, but do not fail",
    },
)
