"""Without a card the kernels run in triton's interpreter; that must be settled before they are imported."""

import pytest

from tests.fixtures.interpreter import HAS_TRITON, settle

settle()


class _WithoutTriton(pytest.Module):
    def collect(self):
        pytest.skip("needs triton: pip install -e '.[test,interpret]'", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if HAS_TRITON or module_path.name == "test_packing.py":
        return None
    return _WithoutTriton.from_parent(parent, path=module_path)


@pytest.fixture(autouse=True)
def _numpy_may_overflow():
    """The interpreter computes lanes that a mask throws away, and numpy warns of what they hold."""
    import numpy as np

    with np.errstate(all="ignore"):
        yield
