"""What gradient synchronisation should cost a training step: formulas, each derived and sourced.

`cost` has messages over links, `all_reduce` and `parameter_server` the methods, `step` what is left
of a step, `models` and `links` figures by name: pure arithmetic in seconds and bytes. `question` is
what was asked, `answer` works it out, `text` and `figure` show it. Measures and judges nothing.
"""

from .command import ORDER, add_to

__all__ = ["ORDER", "add_to"]
