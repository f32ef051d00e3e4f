"""A loan given up before it is out leaves the table cleared."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "case (Lending(), Ended()) | (Closing(request=None), Arrived())"
REPLACEMENT = """\
case Lending(), Ended():
                return Idle(replace(state.at, loan=None)), Orders()
            case (Closing(request=None), Arrived())"""
SOURCE = "lending.md 5, invariant 3"
