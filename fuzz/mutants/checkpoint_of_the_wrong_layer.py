"""The state of each layer is looked for where that of the next one lies."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "        sides = _placed(_states(plan), checkpoint_place(plan, restored))"
REPLACEMENT = """\
        pairs = list(_placed(_states(plan), checkpoint_place(plan, restored)))
        places = [place for _, place in pairs]
        sides = zip((card for card, _ in pairs), places[1:] + places[:1], strict=True)"""
SOURCE = "cases B2"
