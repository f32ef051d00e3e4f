"""The runner does not hear that a command failed."""

MODULE = "strata.engine.runner"
FRAGMENT = """\
                if isinstance(event, Failed):
"""
REPLACEMENT = """\
                if isinstance(event, Failed) and not event.is_fatal:
                    continue
                if isinstance(event, Failed):
"""
SOURCE = "lending.md 4, 8"
