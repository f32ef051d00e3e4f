"""The twin lets bytes be read that nobody has written."""

MODULE = "sim.vram"
FRAGMENT = """\
            if found is None:
                raise UndefinedRead("""
REPLACEMENT = """\
            if found is None:
                continue
            if False:
                raise UndefinedRead("""
SOURCE = "docs/design.md 3, poison"
LETS_LIVE = ("kv_of_last_layer_not_zeroed",)
