"""Only the first layer that may miss blobs asks; the others read what the table has of theirs."""

MODULE = "strata.core.serving.staging"
FRAGMENT = "return command.args.addresses != plan.verifier.addresses and bool(plan.staged[command.args.layer])"
REPLACEMENT = (
    "first = next(layer for layer, experts in enumerate(plan.staged) if experts)\n"
    "    return command.args.addresses != plan.verifier.addresses and command.args.layer == first"
)
SOURCE = "lending.md 3.5, --resident-budget-gib: eagerly by layer"
