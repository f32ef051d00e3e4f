"""What a device reports back."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reached:
    """Everything issued before the `Notify` of this tag is done, and its results lie in staging."""

    tag: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A command failed after it was accepted. `is_fatal`: the device can do nothing more in this process."""

    message: str
    command: object
    is_fatal: bool = False


Event = Reached | Failed
