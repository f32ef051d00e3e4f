"""What every test folder shares: our own Hypothesis profile, since `CI=true` would load another one, and the model to
lend on, written once a session."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture.data import ConjectureResult

from tests.example_database import example_database
from tests.fixtures.lend_model import LendPair, write_lend_model, write_lend_pair

settings.register_profile(
    "strata",
    database=example_database(os.environ),
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=int(os.environ.get("STRATA_TEST_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("strata")

if find_spec("hypofuzz") and not hasattr(ConjectureResult, "slice_comments"):
    # HypoFuzz 25.11.1 still asks for the name that Hypothesis 6.157 changed, and a worker ends at its first failure.
    ConjectureResult.slice_comments = property(lambda result: result.span_comments)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def lend_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FX-LEND in one file. Nobody writes to it."""
    return write_lend_model(tmp_path_factory.mktemp("lend") / "lend.gguf")


@pytest.fixture(scope="session")
def lend_pair(tmp_path_factory: pytest.TempPathFactory) -> LendPair:
    """FX-LEND as trunk and drafter. Nobody writes to them."""
    return write_lend_pair(tmp_path_factory.mktemp("lend"))
