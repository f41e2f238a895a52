"""Which values of a computation belong to asynchronous collectives that are in progress.

An asynchronous collective is printed as several instructions: one starts it, some may continue it,
and one waits for it. They can lie in different computations; what connects them are values, which
pass through tuples, loops, branches and fusions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .hlo import ProgramError

# No compiler keeps as many collectives in progress at once.
_MOST_CHAINS = 200


@dataclass(frozen=True, eq=False)
class Chain:
    """One asynchronous collective from its start to its end; two are never equal.

    `kind` is the opcode that its parts share, such as ``all-gather``, empty where they share none.
    """

    kind: str = ""


Chains: TypeAlias = "frozenset[Chain]"
# The chains of a value, or those of each element of a tuple.
Flow: TypeAlias = "Chains | tuple[Chains, ...]"
NO_CHAINS: Chains = frozenset()


def chains_of(flow: Flow) -> Chains:
    """Return the chains of a value and of all its elements. Raises ProgramError for too many."""
    if isinstance(flow, frozenset):
        return flow
    chains = NO_CHAINS.union(*flow)
    if len(chains) > _MOST_CHAINS:
        raise ProgramError(f"more than {_MOST_CHAINS} collectives are in progress at once")
    return chains


def tuple_of(flows: Iterable[Flow]) -> Flow:
    """Return the flow of a tuple of values; those of a nested tuple are not told apart."""
    elements = tuple(chains_of(flow) for flow in flows)
    return elements if any(elements) else NO_CHAINS


def element_of(flow: Flow, index: int) -> Flow:
    """Return the chains of one element."""
    if isinstance(flow, frozenset):
        return flow
    return flow[index] if index < len(flow) else NO_CHAINS


def either(a: Flow, b: Flow) -> Flow:
    """Return the chains of a value that is one of two, such as before and after a loop."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(one | other for one, other in zip(a, b))
    if not (a and b):
        return a or b
    return chains_of(a) | chains_of(b)


def renamed(flow: Flow, new: Mapping[Chain, Chain]) -> Flow:
    """Return the same flow with other chains in place of those that `new` names."""
    if not new:
        return flow
    if isinstance(flow, tuple):
        return tuple(frozenset(new.get(chain, chain) for chain in part) for part in flow)
    return frozenset(new.get(chain, chain) for chain in flow)
