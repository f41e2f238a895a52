"""The workload of a rank, and the descriptor of a framework, which is known without importing it.

The descriptors of all frameworks are in `busbw.frameworks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# A user's program has any number of collectives, so this word stands for all of them.
ALL_COLLECTIVES = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A single collective, or all collectives of a user's program.

    `reduce_op` is ``sum``, ``max``, ``min``, or ``none`` for a collective that reduces nothing.
    `placement` is ``in_place`` or ``out_of_place``. `axes` are the axes of the mesh along which the
    collective runs, such as ``y``; empty, it runs over all ranks. `program` names the function that
    makes the user's program, such as ``perf/programs.py:train_step``, or the file of the program's
    HLO; its `collective` is `ALL_COLLECTIVES`. `program` is empty for a single collective.
    """

    collective: str = "all_reduce"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""
    program: str = ""

    @property
    def is_sized(self) -> bool:
        """Whether the workload is a single collective, whose payload and time give a bandwidth."""
        return self.collective != ALL_COLLECTIVES

    @property
    def program_word(self) -> str:
        """``program`` for a user's program, as in ids, tables and file names; otherwise empty."""
        return "" if self.is_sized else "program"


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """The facts about a framework that are known without importing it.

    `strategies` are the strategies of its all-reduce, as --strategies names them, the default
    first. `only_strategy` is the strategy of its other collectives. With `has_only_sums`
    its only collective is an all-reduce of sums over all ranks.

    `pip_extra` is the word that installs it, such as ``tf`` in ``busbw[tf]``. `packages` are the
    packages that may provide it, and libraries for chips that no package requires.
    `can_inject_delay` says that a delay can be injected into its programs, and `can_share_devices`
    that several of its processes can measure on the same GPU. A framework that `is_scripted`
    imitates measurements for
    tests: it is always installed, and is measured only if it is named. `environment` has variables
    that are set in its workers unless the user has set them.
    """

    name: str
    strategies: tuple[str, ...]
    only_strategy: str
    pip_extra: str
    packages: tuple[str, ...]
    has_only_sums: bool = False
    can_inject_delay: bool = True
    can_share_devices: bool = False
    is_scripted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
