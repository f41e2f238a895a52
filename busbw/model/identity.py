"""What names a launch and a way of measuring: values with fields, and one text for each.

The texts stand in files, tables and results that others read. Each is made here and read here, and
taken apart nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .words import Clock

_AGAIN = "again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """How a time is taken: the clock, the timed program, the allocator's settings.

    Unlike is never compared with unlike. As text: ``host/chain2-two-buffers/hugepages``.
    """

    clock: Clock
    program: str = ""
    allocator: str = ""

    @classmethod
    def parse(cls, text: str) -> Protocol:
        """The Protocol that `text` stands for. Raises ValueError if it begins with no clock."""
        clock, _, rest = text.partition("/")
        known = [one.value for one in Clock]
        if clock not in known:
            raise ValueError(
                f"expected a clock first, one of {', '.join(known)}, such as host/..., "
                f"got {text[:60]!r}"
            )
        program, _, allocator = rest.rpartition("/") if "/" in rest else (rest, "", "")
        return cls(clock=Clock(clock), program=program, allocator=allocator)

    @property
    def text(self) -> str:
        """As it stands in files and results."""
        return "/".join(filter(None, (self.clock.value, self.program, self.allocator)))

    def __str__(self) -> str:
        """The text, in messages."""
        return self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchId:
    """Which worker process, or group of processes, gave a Run or a Failure.

    `part` is the side of a pair, or the strategy of a group; `attempt` counts the launches that one
    pass took, from 1 on; `is_again`: it took the place of one that was cut short while it started.
    Outside of passes there is a `name` alone. As text: ``2.jax.reference``, ``1.jax.3.again``.
    """

    pass_number: int = 0
    framework: str = ""
    part: str = ""
    attempt: int = 1
    is_again: bool = False
    member: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> LaunchId:
        """The LaunchId that `text` stands for; a text of another form is a name."""
        first, *rest = text.split(".")
        if not first.isdecimal() or not rest:
            return cls(name=text)
        framework, *words = rest
        found = cls(pass_number=int(first), framework=framework)
        for word in words:
            if word == _AGAIN:
                found = replace(found, is_again=True)
            elif word.isdecimal():
                found = replace(found, attempt=int(word))
            elif found.part or found.is_again:
                found = replace(found, member=word)
            else:
                found = replace(found, part=word)
        return found if found.text == text else cls(name=text)

    @property
    def text(self) -> str:
        """As it stands in results, messages and the names of logs; "" for none."""
        words = [self.name] if self.name else []
        if self.pass_number:
            words += [str(self.pass_number), self.framework]
        words += [self.part] if self.part else []
        words += [str(self.attempt)] if self.attempt > 1 else []
        words += [_AGAIN] if self.is_again else []
        return ".".join([*words, *([self.member] if self.member else [])])

    def __str__(self) -> str:
        """The text, in messages."""
        return self.text

    @property
    def again(self) -> LaunchId:
        """The launch that takes the place of this one."""
        return replace(self, is_again=True)

    def of_member(self, role: str) -> LaunchId:
        """One process of this group of processes."""
        return replace(self, member=role)
