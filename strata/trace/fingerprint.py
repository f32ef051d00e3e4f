"""The one program of a replay: what every launch leaves is a pattern of what it read.

Knows no tensors: whoever made the device's memory brings a digest and a pattern for it. Both must compute what
`digest.py` defines, so that bodies can be compared.
"""

from collections.abc import Callable, Iterable
from typing import Any

from strata.device import Memory, Programs
from strata.trace.digest import mix_digests
from strata.trace.replay import ReplayArgs


def fingerprint_programs(
    names: Iterable[str],
    *,
    digest: Callable[[Any], int],
    fill: Callable[[Any, int], None],
    note: Callable[[str, int], None] = lambda lane, mark: None,
) -> Programs:
    """The same program under each of `names`. `digest`: a view of `Memory.read` -> its positional digest; `fill`: a
    view of `Memory.write` and a seed -> it holds the pattern; `note` gets the lane and the mark of every run."""

    def fingerprint(memory: Memory, args: ReplayArgs) -> None:
        mark = mix_digests([digest(memory.read(extent)) for extent in args.reads])
        note(args.lane, mark)
        for index, extent in enumerate(args.writes):
            fill(memory.write(extent), mix_digests((mark, index)))

    return dict.fromkeys(names, fingerprint)
