"""llama.cpp on the CPU as a reference: token ids, and float32 logits at every position.

The code is the shared object of the wheel `xllamacpp`, which exports llama.cpp's C interface; the declarations are
the header text that `llama-cpp-py-sync` carries (its own library is not loaded). The two wheels are pinned beside
each other, since the structs passed by value change between builds.

The reference runs as plainly as it can: one thread, float32 K and V, no flash attention, no repacked weights. It must
not be handed a quantized file for logits: ggml rounds activations too there. Compare with a dequantized copy.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # an abort inside ggml would start a debugger otherwise

import cffi
import xllamacpp.xllamacpp as shared_object

_HEADER = re.compile(r'_LLAMA_H_CDEF = """(.*?)"""', re.DOTALL)


def _header_text() -> str:
    """llama.h as cffi reads it, taken out of the wheel's source without importing the wheel."""
    spec = importlib.util.find_spec("llama_cpp_py_sync")
    assert spec is not None and spec.submodule_search_locations, "install the extra `test`: llama-cpp-py-sync"
    source = Path(spec.submodule_search_locations[0], "_cffi_bindings.py").read_text(encoding="utf-8")
    found = _HEADER.search(source)
    assert found is not None, "llama-cpp-py-sync no longer keeps its header where we look for it"
    return found[1]


_ffi = cffi.FFI()
_ffi.cdef(_header_text())
# What llama.cpp's own tools need of the NextN graph is not in its header, so these are the names that the compiler made
# of C++ functions: llama_set_embeddings_nextn(context, bool, bool) and llama_get_embeddings_nextn_ith(context, index).
_ffi.cdef("""
void _Z26llama_set_embeddings_nextnP13llama_contextbb(struct llama_context * context, bool value, bool is_masked);
float * _Z30llama_get_embeddings_nextn_ithP13llama_contexti(struct llama_context * context, int32_t index);
void * malloc(size_t size);
""")
_lib = _ffi.dlopen(shared_object.__file__)
_libc = _ffi.dlopen(None)


@_ffi.callback("void(enum ggml_log_level, const char *, void *)")
def _log(level: int, text: Any, _: Any) -> None:
    """Errors only: llama.cpp tells the story of every load."""
    if level == _lib.GGML_LOG_LEVEL_ERROR:
        sys.stderr.write(_ffi.string(text).decode("utf-8", "replace"))


_lib.llama_log_set(_log, _ffi.NULL)
_lib.llama_backend_init()


class LlamaCpp:
    """One model file. `context_tokens` bounds the sequences given to `logits`. `has_drafter`: its NextN block is loaded
    too; it must have one, or llama.cpp ends the process."""

    def __init__(self, path: Path | str, *, context_tokens: int = 512, has_drafter: bool = False) -> None:
        params = _lib.llama_model_default_params()
        params.load_mtp = has_drafter
        params.n_gpu_layers = 0
        params.use_extra_bufts = False  # no repacking: the plain kernels
        self._model = _lib.llama_model_load_from_file(os.fsencode(path), params)
        if self._model == _ffi.NULL:
            raise RuntimeError(f"llama.cpp does not load {path}")
        self._vocab = _lib.llama_model_get_vocab(self._model)
        self._context_tokens = context_tokens
        self.vocab_size = int(_lib.llama_vocab_n_tokens(self._vocab))
        self.hidden_size = int(_lib.llama_model_n_embd(self._model))

    def tokenize(self, text: str, special: bool = False, bos: bool = False) -> list[int]:
        """`special`: text of control tokens becomes the token. `bos`: whatever the file asks to put around a prompt."""
        raw = text.encode()
        room = len(raw) + 8
        out = _ffi.new("llama_token[]", room)
        count = _lib.llama_tokenize(self._vocab, raw, len(raw), out, room, bos, special)
        assert count >= 0, f"tokens={-count} for {len(raw)} bytes: more than one a byte"
        return [int(out[index]) for index in range(count)]

    def logits(self, ids: list[int]) -> np.ndarray:
        """float32 [len(ids), vocab_size]: row i predicts the token after ids[0..i]."""
        context = self._new_context()
        try:
            return self._decode(context, ids)
        finally:
            _lib.llama_free(context)

    @contextmanager
    def drafting(self, ids: list[int]) -> Iterator["Drafting"]:
        """The trunk has read `ids`; the drafter has read nothing."""
        assert _lib.llama_model_n_layer_nextn(self._model), "no NextN block, or has_drafter was not given"
        trunk = self._new_context()
        _lib._Z26llama_set_embeddings_nextnP13llama_contextbb(trunk, True, False)
        drafter = self._new_context(trunk)
        _lib._Z26llama_set_embeddings_nextnP13llama_contextbb(drafter, True, True)
        try:
            self._decode(trunk, ids)
            yield Drafting(self, drafter, self._nextn_rows(trunk, len(ids)))
        finally:
            _lib.llama_free(drafter)
            _lib.llama_free(trunk)

    def _decode(
        self, context: Any, ids: list[int], *, position: int = 0, hidden: np.ndarray | None = None
    ) -> np.ndarray:
        """The logits of every row. A batch of the drafter carries hidden rows beside its tokens."""
        batch = _lib.llama_batch_init(len(ids), 0 if hidden is None else self.hidden_size, 1)
        try:
            if hidden is not None:  # a batch has room for one or the other; llama_batch_free gives this back as well
                batch.token = _ffi.cast("llama_token *", _libc.malloc(4 * len(ids)))
                rows = np.ascontiguousarray(hidden, np.float32)
                _ffi.memmove(batch.embd, rows.tobytes(), rows.nbytes)
            batch.n_tokens = len(ids)
            for index, token in enumerate(ids):
                batch.token[index], batch.pos[index], batch.logits[index] = token, position + index, 1
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
            code = _lib.llama_decode(context, batch)
            if code:
                raise RuntimeError(f"llama_decode={code} for {len(ids)} tokens of context {self._context_tokens}")
            return np.stack([self._row(context, index) for index in range(len(ids))])
        finally:
            _lib.llama_batch_free(batch)

    def _nextn_rows(self, context: Any, num_rows: int) -> np.ndarray:
        """float32 [num_rows, hidden_size]: what the drafter takes in of the batch decoded last."""
        rows = [_lib._Z30llama_get_embeddings_nextn_ithP13llama_contexti(context, index) for index in range(num_rows)]
        size_bytes = 4 * self.hidden_size
        return np.stack([np.frombuffer(_ffi.buffer(row, size_bytes), np.float32).copy() for row in rows])

    def _row(self, context: Any, index: int) -> np.ndarray:
        data = _ffi.buffer(_lib.llama_get_logits_ith(context, index), 4 * self.vocab_size)
        return np.frombuffer(data, np.float32).copy()

    def _new_context(self, trunk: Any = None) -> Any:
        """Of the model, or, beside its trunk's context, of its drafter."""
        params = _lib.llama_context_default_params()
        if trunk is not None:
            params.ctx_type, params.ctx_other = _lib.LLAMA_CONTEXT_TYPE_MTP, trunk
        params.n_ctx = params.n_batch = params.n_ubatch = self._context_tokens
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = _lib.GGML_TYPE_F32
        params.flash_attn_type = _lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_perf = True
        context = _lib.llama_init_from_model(self._model, params)
        if context == _ffi.NULL:
            raise RuntimeError(f"llama.cpp gives no context of {self._context_tokens} tokens")
        return context

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        if self._model != _ffi.NULL:
            _lib.llama_model_free(self._model)
            self._model = _ffi.NULL

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Drafting:
    """The NextN graph behind a trunk that has read a prompt. `hidden`: float32 [n, E], its rows as the graph wants
    them."""

    def __init__(self, model: LlamaCpp, context: Any, hidden: np.ndarray) -> None:
        self._model, self._context, self.hidden = model, context, hidden

    def read(self, ids: list[int], hidden: np.ndarray, *, position: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a token and the hidden row before it; `position` is the first token's -> logits [n, V] of what comes
        behind each, and the block's own hidden rows [n, E]."""
        logits = self._model._decode(self._context, ids, position=position, hidden=hidden)
        return logits, self._model._nextn_rows(self._context, len(ids))
