"""Missing blobs are copied into slots, and read where they lie in the pack all the same."""

MODULE = "strata.core.serving.staging"
FRAGMENT = "    upload = Upload(home, address_words(plan, places, {**resident, **staged}, range(layer, layer + 1)))"
REPLACEMENT = """\
    pinned = replace(plan, pack=replace(plan.pack, pinned_bytes=plan.pack.size_bytes))
    upload = Upload(home, address_words(pinned, places, resident, range(layer, layer + 1)))"""
SOURCE = "docs/design.md 5, pageable blobs: no address that a kernel may follow"
