"""What every test folder shares: our own Hypothesis profile, since `CI=true` would load another one, and the model to
lend on, written once a session."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.fixtures.lend_model import LendPair, write_lend_model, write_lend_pair

settings.register_profile(
    "strata",
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=int(os.environ.get("STRATA_TEST_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("strata")


@pytest.fixture(scope="session")
def lend_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FX-LEND in one file. Nobody writes to it."""
    return write_lend_model(tmp_path_factory.mktemp("lend") / "lend.gguf")


@pytest.fixture(scope="session")
def lend_pair(tmp_path_factory: pytest.TempPathFactory) -> LendPair:
    """FX-LEND as trunk and drafter. Nobody writes to them."""
    return write_lend_pair(tmp_path_factory.mktemp("lend"))
