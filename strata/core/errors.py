"""Who may fail and how. `assert` is for our own mistakes, `Refusal` for "cannot, and here is the shortfall",
the exceptions below for the world outside."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A plan that cannot be: a value, never an exception. `shortfall_bytes`: what the card has too little, 0 where a
    larger card would not help."""

    reason: str
    shortfall_bytes: int = 0


class ConfigError(Exception):
    """What the user asked for cannot be done; the command exits 2, one line a reason, before memory is touched."""

    def __init__(self, *reasons: str) -> None:
        assert reasons
        super().__init__("\n".join(reasons))
        self.reasons = reasons


class ModelError(ConfigError):
    """A model file that is broken, hostile or not supported. The message names the file and the key or tensor."""


class RequestError(Exception):
    """One client's request is wrong; it gets `status` and an OpenAI error object, the server goes on."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.param = message, status, code, param


class DeviceError(Exception):
    """The device refused or failed `command`."""

    def __init__(self, message: str, command: object = None) -> None:
        super().__init__(message)
        self.command = command


class DeviceLost(DeviceError):
    """The device can do nothing more in this process: there is no use in trying again."""
