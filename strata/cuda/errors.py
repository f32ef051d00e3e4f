"""What the driver refuses, and which refusals leave nothing to be saved.

Most errors refuse one call and harm nothing. A few are sticky: the context is gone, every later call gives the same
answer, and only a new process helps. The names are the driver's own (`cuGetErrorName`), so that a log can be searched.
"""

from strata.core.errors import DeviceError

OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
NOT_READY = 600
"""CUDA_ERROR_NOT_READY, which is an answer and no failure."""

FATAL = frozenset(
    (
        "CUDA_ERROR_DEINITIALIZED",
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_CONTAINED",
        "CUDA_ERROR_EXTERNAL_DEVICE",
        "CUDA_ERROR_UNKNOWN",
    )
)
"""Errors after which the process must end (the notes on each in the driver API's CUresult), and the unknown one:
what nobody can name nobody can survive."""


class CudaFailure(DeviceError):
    """A driver call failed. `code` is the driver's name of the error."""

    def __init__(self, message: str, *, code: str, command: object = None) -> None:
        super().__init__(message, command)
        self.code = code

    @property
    def is_fatal(self) -> bool:
        """The context is lost: nothing works in this process any more."""
        return self.code in FATAL
