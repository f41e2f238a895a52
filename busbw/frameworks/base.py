"""What the parent knows of a framework without importing it; what it reaches, its probe says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.model import Capability


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """One framework.

    `strategies` are those of its all-reduce, by the names that `--strategies` takes, the usual one
    first; `only_strategy` is the one that its other collectives have. With `only_sums` it has sums
    over all ranks and nothing else. `steps` are the training steps that it has, and `ring` the
    strategy whose all-reduce is a ring. `extra` is what installs it, such as ``tf`` in
    ``busbw[tf]``. `compiles`: its programs can be compiled for chips that are not there.
    `learns_digits`: it trains on examples that a package of its own brings. `injects`: its programs
    can be given more to do than the case asks for. One that is `scripted` is always there, and
    measured only where somebody names it. `environment` are variables that must stand before it
    starts, by what it is asked for; where the user has set one, that holds.
    """

    name: str
    strategies: tuple[str, ...]
    only_strategy: str
    steps: tuple[str, ...]
    ring: str
    extra: str
    only_sums: bool = False
    compiles: bool = False
    learns_digits: bool = False
    injects: bool = True
    scripted: bool = False
    environment: Mapping[Capability, Mapping[str, str]] = field(default_factory=dict)
