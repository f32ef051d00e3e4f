"""Blobs are exchanged while what was lent comes home."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        state = Windowing(at, request, request.prompt_ids[-1], num_left=request.max_tokens)
"""
REPLACEMENT = """\
        at, swapped = swap(self.plan, self.places, at)
        orders = orders.then(swapped)
        state = Windowing(at, request, request.prompt_ids[-1], num_left=request.max_tokens)
"""
SOURCE = "lending.md 5, invariant 8"
