"""The last blob that a layer misses is not copied into its slot."""

MODULE = "strata.core.serving.staging"
FRAGMENT = '*blobs_home(plan, taken, owner="verifier")]'
REPLACEMENT = '*blobs_home(plan, taken[:-1], owner="verifier")]'
SOURCE = "lending.md 3.5, --resident-budget-gib: staged into a slot before the window that needs it"
