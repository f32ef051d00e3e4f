"""Kernels compile for every card that is served, within its shared memory and without spilling."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest

import kernels.triton
from tests.kernels_triton.variants import SHARED_BYTES

MAX_LOCAL_BYTES = 64


def compile_in_a_process(scope, cc):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.kernels_triton.compile_all", scope, str(cc)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(built, cc):
    too_large = [one for one in built if one["shared_bytes"] > SHARED_BYTES[cc]]
    spilling = [one for one in built if one["local_bytes"] > MAX_LOCAL_BYTES]
    assert (too_large, spilling) == ([], [])


@pytest.mark.soak
def test_every_kernel_compiles_for_hopper():
    built = compile_in_a_process("representative", 90)
    check(built, 90)
    existing = set()
    for module in pkgutil.iter_modules(kernels.triton.__path__):
        members = vars(importlib.import_module(f"kernels.triton.{module.name}"))
        existing |= {name for name in members if name.endswith("_kernel")}
    assert {one["kernel"] for one in built} == existing


@pytest.mark.soak
@pytest.mark.parametrize("cc", SHARED_BYTES)
def test_every_variant_compiles_for_every_card(cc):
    check(compile_in_a_process("all", cc), cc)
