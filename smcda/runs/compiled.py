"""Programs that this process has compiled, so that the next run of the same kind need not wait."""

import hashlib
from collections import OrderedDict
from typing import Any

_programs: OrderedDict[str, Any] = OrderedDict()
MAX_PROGRAMS = 16


def compile_once(lowered: Any) -> tuple[Any, str]:
    """Compile a program, unless this process has compiled the same one before; also give its text's digest.

    By its text rather than by the function it came from: a function may mean something else when a value that
    it reads has changed.
    """
    digest = hashlib.sha256(lowered.as_text().encode()).hexdigest()
    if digest not in _programs:
        _programs[digest] = lowered.compile()
    _programs.move_to_end(digest)
    while len(_programs) > MAX_PROGRAMS:
        _programs.popitem(last=False)
    return _programs[digest], digest
