"""What a failed command left undefined stays so."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        if at.is_broken:
            mended"""
REPLACEMENT = """\
        if False:
            mended"""
SOURCE = "lending.md 4, 8"
