"""What every test folder shares: our own Hypothesis profile, since `CI=true` would load another one."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "strata",
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=int(os.environ.get("STRATA_TEST_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("strata")
