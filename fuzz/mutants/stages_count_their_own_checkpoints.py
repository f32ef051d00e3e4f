"""Each stage has as many checkpoints as its own state has room for."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = """\
        fewest = min(kept, key=lambda checkpoints: checkpoints.num_slots, default=NO_CHECKPOINTS)
        stages = tuple(replace(state, at=replace(state.at, checkpoints=fewest)) for state in states)
"""
REPLACEMENT = """\
        stages = tuple(states)
"""
SOURCE = "lending.md 5, invariant 42"
