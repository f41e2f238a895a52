"""What a page says before its tables: how sessions were run, what was done to them, and the words.

One for each layout, by its name. The numbers are those of the code that does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .faults import LONGEST_CUT_S
from .ground import CASE_TIMEOUT_S, CASES, LAUNCHES, PAYLOADS
from .hasty import START_S
from .hosts import DELAY_S, MEASURING, RATE_BITS_PER_S
from .session import NEVER_S
from .strikes import STOPPED_S

_COMMAND = (
    f"pytest perf/ --frameworks=jax --payloads={PAYLOADS[0]}:{PAYLOADS[-1]} --launches={LAUNCHES} "
    f"--case-timeout={CASE_TIMEOUT_S:g} --clock=dispatch --update-baselines=new --history=history"
)
_KILLED = (
    "What is lost, and what remains, when a process of a session is killed or stopped at a random "
    "moment."
)
_WORDS = (
    f"*lost* counts launches of cases, of {CASES}; *left* lists what remained when the session was "
    "over: processes, folders in TMPDIR, locks, baselines that are neither unchanged nor those of "
    "a complete session, and a history that lost a line or has part of a session. The next session "
    "removes the folder that a killed session leaves behind, which was tested too."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prose:
    """The title, the sentence below it, and the paragraphs; `how` heads the second column.

    ``{options}`` in a paragraph stands for those of the layout.
    """

    title: str
    top: str
    paragraphs: tuple[str, ...]
    how: str = "signal"


def _signals(title: str, targets: str) -> Prose:
    return Prose(
        title=title,
        top=_KILLED,
        paragraphs=(
            f"In each row a whole session ran, `{_COMMAND}{{options}}`, and one of its processes "
            f"got one signal at a random moment: {targets}. A session that got SIGSTOP was "
            f"continued {STOPPED_S:g} s later; any other process was not continued, so it had to "
            f"be timed out and killed. The deadline for starts is {START_S:g} s here instead of "
            "180 s. Workers ignore SIGINT once they have started. *what* is the intended target: "
            "a worker that is faster than usual may already be in its next phase.",
            _WORDS,
        ),
    )


_HOSTS = Prose(
    title="What a fault costs a session over several hosts",
    top=(
        "What is lost, and what remains, when a host, its link, its agent, ssh or the session "
        "itself fails at a random moment."
    ),
    how="where and when",
    paragraphs=(
        f"In each row a whole session ran, `{_COMMAND}{{options}}`, and one thing failed at a "
        f"random moment. It ran on one host and measured on {len(MEASURING)} others, to which ssh "
        "led; each is a network namespace with a real sshd, on a link with "
        f"{DELAY_S * 1000:g} ms one way and {RATE_BITS_PER_S / 1e9:g} Gbit/s. The deadline for "
        f"starts is {START_S:g} s here instead of 180 s. A session that took {NEVER_S:g} s would "
        "have counted as one that never ends.",
        "*agent* and *ssh*: the agent of the host, or the client that leads to it, was killed. "
        "*host*: all that busbw ran there was stopped until the session was over, but not sshd, "
        "and had then to end by itself. *link, cut*: all that the host sends and gets was dropped "
        f"until the end; *for a while*: for 1 to {LONGEST_CUT_S:g} s. *when* is the intended part "
        "of the session: while its agents join, in the probe, and while workers start, measure "
        "and leave. *after* is when it was done, from the session's start.",
        "A host that is gone for good ends the session with what it has: NO_VERDICT, and what was "
        "not measured counts as lost. One that is not reached at the start is a usage error, exit "
        "code 4. *ended* counts both, and sessions that were killed.",
        f"{_WORDS} So does the next agent with that of one that was killed. On all hosts nothing "
        "but sshd may be left.",
    ),
)

PROSES: Mapping[str, Prose] = {
    "single": _signals("What a kill costs", "the probe, a worker, or pytest itself"),
    "processes": _signals(
        "What a kill costs a group of processes", "the probe, a worker, or pytest itself"
    ),
    "agents": _signals(
        "What a kill costs a group of processes under agents",
        "the probe, a worker, an agent, or pytest itself",
    ),
    "hosts": _HOSTS,
}
