"""Every read of a hybrid model computes recurrent layers in blocks counted from the last cut, wherever it began."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Launch, Stream
from strata.core.memory.shapes import PlanOptions
from strata.core.programs import RECURRENT, LayerArgs
from strata.core.serving.cuts import cuts_of
from strata.core.serving.request import GenerationRequest
from tests.engine.symbolic_card import Card, hybrid_inventory, symbolic_card

ENDS = frozenset({1, 2})  # of the card's replies, and so of turns


def talk(turns: list[int]) -> tuple[int, ...]:
    """Turns of so many tokens; the last of each ends it."""
    return tuple(1 if i == n - 1 else 3 + (i * i + n) % 28 for n in turns for i in range(n))


def blocks_of(served: Card, *, read_from: int) -> list[int]:
    """Positions at which blocks of the chunks read last begin, in the first recurrent layer."""
    found, position = [], read_from
    for command in served.commands:
        if isinstance(command, Launch) and command.program == RECURRENT and command.stream is Stream.PROMPT:
            assert isinstance(command.args, LayerArgs)
            args = command.args
            if args.layer == 1:
                for start, end in pairwise((*args.block_runs, args.rows)):
                    found += range(position + start, position + end, 64)
                position += args.rows
    return found


@given(
    first=st.lists(st.integers(1, 400), min_size=1, max_size=4),
    edited=st.lists(st.integers(1, 400), min_size=1, max_size=3),
    checkpoints=st.integers(0, 3),
    max_tokens=st.integers(1, 5),
    most_tokens=st.sampled_from((256, 512)),
)
def test_every_chunk_begins_where_a_block_does_or_behind_a_reply(first, edited, checkpoints, max_tokens, most_tokens):
    """A conversation, its continuation, and one that was edited behind the first turn."""
    options = PlanOptions(4096, min_cache_slots=4, ring_slots=4, max_chunk_tokens=most_tokens)
    options = replace(options, checkpoint_bytes=checkpoints * 768)
    served = symbolic_card(hybrid_inventory(), options, arena_bytes=2 << 20)
    ids = (*talk(first), 5)
    for prompt in (ids, None, (*ids[: first[0]], *talk(edited), 6)):
        held = served.runner._state.at.session.ids
        prompt = (*held, *talk(edited), 6) if prompt is None else prompt
        del served.commands[:]
        served.serve(GenerationRequest("r", prompt, max_tokens))
        read_from, end = served.runner.read_facts().read_from, len(prompt) - 1
        cuts, last, expected = cuts_of(prompt[:-1], turn_ends=ENDS), 0, []
        for position in range(end):
            last = position if position in cuts else last
            if position == read_from or (position > read_from and (position - last) % 64 == 0):
                expected.append(position)
        assert blocks_of(served, read_from=read_from) == expected
