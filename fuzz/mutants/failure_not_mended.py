"""What a failed command left undefined stays so."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        if at.is_broken:
            at = replace(at, table"""
REPLACEMENT = """\
        if False:
            at = replace(at, table"""
SOURCE = "lending.md 4, 8"
