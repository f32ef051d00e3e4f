"""What a request must be answered with, from the geometry of the model and the token ids alone.

Written beside `programs.py` and never asked by it: no buffer, address, table, chunk or session occurs here.
"""

import struct
from zlib import crc32

from sim.world.geometry import FEW_TOKENS, VOCAB_SIZE, Geometry
from sim.world.hashing import FIRST_CELL, chain, last_cell, mix
from strata.core import programs
from strata.core.serving.request import GenerationRequest

_PARAMS_BYTES = 256


class Expected:
    """The reply to one request, token by token; `ids` are those whose cells the next window reads."""

    def __init__(self, geometry: Geometry, request: GenerationRequest, terminators: tuple[int, ...]) -> None:
        self._geometry = geometry
        self.ids = list(request.prompt_ids)
        tokens = struct.pack(f"<{len(self.ids)}i", *self.ids)
        self._cells = [chain(FIRST_CELL + layer, tokens) for layer in range(len(geometry.blob_bytes))]
        self._inputs = _sampler_inputs(request, terminators)
        self._counts = [0] * VOCAB_SIZE

    def next_token(self) -> int:
        """The token that the window over all of `ids` samples."""
        mark = 0
        for layer, blob_bytes in enumerate(self._geometry.blob_bytes):
            cells = self._cells[layer]
            if self._geometry.is_recurrent(layer):
                mark = crc32(struct.pack("<qI", len(self.ids), last_cell(cells)), mark)
            else:
                mark = crc32(cells, crc32(cells, mark))
            mark = mix(mark, programs.COMBINE if blob_bytes else programs.FFN, layer)
        mark = mix(mark, programs.HEAD, 0)
        for data in (*self._inputs, struct.pack(f"<{VOCAB_SIZE}I", *self._counts)):
            mark = crc32(data, mark)
        return FEW_TOKENS[mark % len(FEW_TOKENS)] if self._geometry.window_rows > 1 else mark % VOCAB_SIZE

    def take(self, token_id: int) -> None:
        """The reply goes on with `token_id`."""
        self.ids.append(token_id)
        self._counts[token_id] += 1
        token = struct.pack("<i", token_id)
        self._cells = [cells + chain(last_cell(cells), token) for cells in self._cells]


def _sampler_inputs(request: GenerationRequest, terminators: tuple[int, ...]) -> tuple[bytes, ...]:
    """params, bias, seen, terminators: as `WindowBuffers` and `SAMPLING_FIELDS` document them."""
    s = request.sampling
    words = (s.seed, len(request.prompt_ids), s.min_tokens, s.top_k, int(s.temperature == 0.0))
    reals = (s.temperature, s.top_p, s.min_p, s.repetition_penalty, s.presence_penalty, s.frequency_penalty)
    bias = [0.0] * VOCAB_SIZE
    for token, value in s.logit_bias:
        bias[token] = value
    return (
        struct.pack("<5q6d", *words, *reals).ljust(_PARAMS_BYTES, b"\0"),
        struct.pack(f"<{VOCAB_SIZE}f", *bias),
        _marked(request.prompt_ids),
        _marked(terminators),
    )


def _marked(ids: tuple[int, ...]) -> bytes:
    """One byte a token: 1 for those in `ids`."""
    marks = bytearray(VOCAB_SIZE)
    for token in set(ids):
        marks[token] = 1
    return bytes(marks)
