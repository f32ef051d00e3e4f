"""Without a card the kernels run in triton's interpreter; that must be settled before they are imported."""

import importlib.util
import os

import pytest

collect_ignore_glob: list[str] = []
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("test_*.py")
else:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def _numpy_may_overflow():
    """The interpreter computes lanes that a mask throws away, and numpy warns of what they hold."""
    import numpy as np

    with np.errstate(all="ignore"):
        yield
