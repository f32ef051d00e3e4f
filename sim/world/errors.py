"""What a world calls a fault beside the twin's own words."""


class WorldFault(AssertionError):
    """Something that a world must keep does not hold."""
