"""Compiles kernels to cubins, without a card:

    python -m tests.kernels_triton.compile_all {all,representative} CC[,CC]

Run as a process of its own, since one that interprets kernels cannot compile them. Prints one JSON line a kernel and
card: shared memory, registers, and bytes of local memory a thread (spilled registers and stack).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tests.kernels_triton.variants import (
    ARGUMENT_TYPES,
    SHARED_BYTES,
    Variant,
    all_variants,
    representative_variants,
)


def compile_variant(variant: Variant, cc: int) -> dict[str, Any]:
    names = [parameter.name for parameter in variant.kernel.params]
    kinds = {**ARGUMENT_TYPES, **variant.types}
    constants = dict(variant.constants)
    num_warps = constants.pop("num_warps", 4)
    signature = {one: "constexpr" if one in constants else kinds[one] for one in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, one in enumerate(names) if signature[one].startswith("*")}
    source = ASTSource(fn=variant.kernel, signature=signature, constexprs=constants, attrs=aligned)
    built = triton.compile(source, target=GPUTarget("cuda", cc, 32), options={"num_warps": num_warps})
    found = {
        "name": variant.name,
        "kernel": variant.kernel.fn.__name__,
        "cc": cc,
        "shared_bytes": built.metadata.shared,
    }
    return {**found, **_resource_usage(built.asm["cubin"])}


def _resource_usage(cubin: bytes) -> dict[str, int]:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    number = {word: int(re.search(rf"{word}:(\d+)", text)[1]) for word in ("REG", "STACK", "LOCAL")}  # type: ignore[index]
    return {"registers": number["REG"], "local_bytes": number["STACK"] + number["LOCAL"]}


def main() -> None:
    os.environ.pop("TRITON_INTERPRET", None)
    scope = {"all": all_variants, "representative": representative_variants}[sys.argv[1]]
    for cc in (int(word) for word in sys.argv[2].split(",")):
        for variant in scope(SHARED_BYTES[cc]):
            print(json.dumps(compile_variant(variant, cc)), flush=True)


if __name__ == "__main__":
    main()
