"""What a rank runs, and what the parent knows of a framework.

A framework's descriptor is in `busbw.frameworks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The collective of a program, which has any number of them.
ALL = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A collective by itself, or all collectives of a program of the user's.

    The `reduce_op` is ``sum``, ``max``, ``min``, or ``none`` where nothing is reduced, and the
    `placement` ``in_place`` or ``out_of_place``. `axes` are the axes of the mesh that the
    collective runs over, such as ``y`` (empty: all). A `program` is a function that makes it, such
    as ``perf/programs.py:train_step``, or the file of its HLO; it has the collective `ALL`.
    """

    collective: str = "all_reduce"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""
    program: str = ""

    @property
    def is_sized(self) -> bool:
        """Whether it is one collective, of one payload, so that its time gives a bandwidth."""
        return self.collective != ALL

    @property
    def word(self) -> str:
        """The word of a program in ids, tables and file names; empty for a collective."""
        return "" if self.is_sized else "program"


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """What the parent knows of a framework without importing it; what it reaches, its probe says.

    `strategies` are those of its all-reduce, by the names that `--strategies` takes, the default
    first; `only_strategy` is the one that its other collectives have. With `only_sums` it has sums
    over all ranks and nothing else. `ring` is the strategy whose all-reduce is a ring. `extra` is
    what installs it, such as ``tf`` in ``busbw[tf]``, and `packages` are those that it can be
    installed as, with libraries of chips that nothing asks for. `injects`: extra work can be
    injected into its programs. `shares_devices`: several of its processes can measure on one GPU. A
    `scripted` one is always installed, and measured only when it is named.
    `environment` are variables to set before it measures; a value that the user has set takes
    precedence.
    """

    name: str
    strategies: tuple[str, ...]
    only_strategy: str
    ring: str
    extra: str
    packages: tuple[str, ...]
    only_sums: bool = False
    injects: bool = True
    shares_devices: bool = False
    scripted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
