"""Starts, feeds, times out and kills workers. Knows no framework, no pytest and no verdict.

It never imports the worker: it starts an interpreter on a private folder. A transport is where
processes run, a group the processes of one launch; the executor owns all groups, and a schedule
says in which order they run and how many at once.
"""

from .agent_starters import LocalAgents, SshAgents, SshHosts, start_agent
from .agents import AgentGone, AgentsError, AgentsMissing, AgentsTransport, IncomparableHosts
from .bundle import Bundle, worker_hash
from .executor import (
    Executor,
    Interpreter,
    ProbeCutShort,
    ProbeFailed,
    ProbesDiffer,
    interpreter,
    probe,
    trained,
)
from .group import Group
from .hub import Timing
from .local import BusyError, LocalTransport, Worker, alone
from .peers import hand_over, handed_over, listening_at
from .schedules import SCHEDULES, AbstractSchedule, Progress, Side, Stack
from .schedules.parallel import Job, Parallel, cache_folder
from .transport import Ended, Reply, Request, Starter

__all__ = [
    "SCHEDULES",
    "AbstractSchedule",
    "AgentGone",
    "AgentsError",
    "AgentsMissing",
    "AgentsTransport",
    "Bundle",
    "BusyError",
    "Ended",
    "Executor",
    "Group",
    "IncomparableHosts",
    "Interpreter",
    "Job",
    "LocalAgents",
    "LocalTransport",
    "Parallel",
    "ProbeCutShort",
    "ProbeFailed",
    "ProbesDiffer",
    "Progress",
    "Reply",
    "Request",
    "Side",
    "SshAgents",
    "SshHosts",
    "Stack",
    "Starter",
    "Timing",
    "Worker",
    "alone",
    "cache_folder",
    "hand_over",
    "handed_over",
    "interpreter",
    "listening_at",
    "probe",
    "start_agent",
    "trained",
    "worker_hash",
]
