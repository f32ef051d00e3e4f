"""Programs of one class do not share a buffer."""

MODULE = "strata.core.memory.scratch"
FRAGMENT = "return {program: buffers[size_bytes] for program, size_bytes in needed.items()}"
REPLACEMENT = "return {program: Access(bump.take(size_bytes), owner) for program, size_bytes in needed.items()}"
SOURCE = "lending.md 3.3, size classes"
