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
_lib = _ffi.dlopen(shared_object.__file__)


@_ffi.callback("void(enum ggml_log_level, const char *, void *)")
def _log(level: int, text: Any, _: Any) -> None:
    """Errors only: llama.cpp tells the story of every load."""
    if level == _lib.GGML_LOG_LEVEL_ERROR:
        sys.stderr.write(_ffi.string(text).decode("utf-8", "replace"))


_lib.llama_log_set(_log, _ffi.NULL)
_lib.llama_backend_init()


class LlamaCpp:
    """One model file. `context_tokens` bounds the sequences given to `logits`."""

    def __init__(self, path: Path | str, *, context_tokens: int = 512) -> None:
        params = _lib.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = False  # no repacking: the plain kernels
        self._model = _lib.llama_model_load_from_file(os.fsencode(path), params)
        if self._model == _ffi.NULL:
            raise RuntimeError(f"llama.cpp does not load {path}")
        self._vocab = _lib.llama_model_get_vocab(self._model)
        self._context_tokens = context_tokens
        self.vocab_size = int(_lib.llama_vocab_n_tokens(self._vocab))

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
        batch = _lib.llama_batch_init(len(ids), 0, 1)
        try:
            batch.n_tokens = len(ids)
            for index, token in enumerate(ids):
                batch.token[index], batch.pos[index], batch.logits[index] = token, index, 1
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
            code = _lib.llama_decode(context, batch)
            if code:
                raise RuntimeError(f"llama_decode={code} for {len(ids)} tokens of context {self._context_tokens}")
            return np.stack([self._row(context, index) for index in range(len(ids))])
        finally:
            _lib.llama_batch_free(batch)
            _lib.llama_free(context)

    def _row(self, context: Any, index: int) -> np.ndarray:
        data = _ffi.buffer(_lib.llama_get_logits_ith(context, index), 4 * self.vocab_size)
        return np.frombuffer(data, np.float32).copy()

    def _new_context(self) -> Any:
        params = _lib.llama_context_default_params()
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
