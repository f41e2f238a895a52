"""Sessions as they are read back: one that measured, or one that compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from busbw.model.case import Spec
from busbw.model.launch import Measurement, Plan
from busbw.model.machine import Compiler, Environment
from busbw.model.verdict import CompiledVerdict, SessionVerdict, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session that measured; `name` is the file's.

    `references` is what was measured in turn with the cases, and `process_hosts` the name of each
    process's host.
    """

    name: str
    busbw: str
    began: datetime
    environment: Environment
    plan: Plan
    answer: SessionVerdict | None
    verdicts: tuple[Verdict, ...]
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    process_hosts: tuple[str, ...] = ()
    measuring_s: float = 0.0

    @property
    def host(self) -> str:
        """The host that measured; "" where that is not known."""
        return self.environment.host

    @property
    def folders(self) -> tuple[str, ...]:
        """Where its machine's files lie below those of baselines and of a history.

        Cases of other numbers of ranks, or in another mesh, have a folder of their own.
        """
        key = self.environment.key
        cases = (one.case for one in self.verdicts if one.case is not None)
        shapes = dict.fromkeys((one.ranks, one.mesh) for one in cases)
        keys = [key, *(replace(key, ranks=ranks, mesh=mesh) for ranks, mesh in shapes)]
        return tuple(dict.fromkeys(str(one.folder) for one in keys))

    @property
    def is_paired(self) -> bool:
        """Whether two stacks were measured in turn."""
        return bool(self.references)

    def version(self, framework: str) -> str:
        """The framework with its version, such as ``jax 0.10.2``."""
        found = self.environment.versions.get(framework, {}).get(framework, "")
        return f"{framework} {found}" if found else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledSession:
    """A session that compiled and measured nothing; `name` is the file's."""

    name: str
    busbw: str
    began: datetime
    host: str
    answer: SessionVerdict | None
    compilers: tuple[Compiler, ...]
    verdicts: tuple[CompiledVerdict, ...]
