"""What a window finds before anything was written is not made anew."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
        orders = orders.then(Orders((), first_verifier(plan)))
"""
REPLACEMENT = ""
SOURCE = "lending.md 5, invariant 30"
