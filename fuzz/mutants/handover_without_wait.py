"""The verifier does not wait for the prompt stream."""

MODULE = "strata.core.serving.machine"
FRAGMENT = 'handover = (Record(Stream.PROMPT, "chunk_done"), Wait(Stream.VERIFIER, "chunk_done"))'
REPLACEMENT = 'handover = (Record(Stream.PROMPT, "chunk_done"),)'
SOURCE = "lending.md 4.1, verifier"
EQUIVALENT = (
    "The closing awaits a notice of the prompt stream, and no window is issued before the host has taken it; "
    "commands that the host issues then are ordered behind everything that it knows to be over."
)
