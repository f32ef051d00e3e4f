"""A cancelled read takes its bytes back at once."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
            case Reading(), Ended():
                return self._close(state.at, None)"""
REPLACEMENT = """\
            case Reading(), Ended():
                return self._settle(state.at)"""
SOURCE = "lending.md 5, invariant 17"
