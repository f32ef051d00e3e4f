"""What comes of a request: text, how far it is, how it ended, and how it was served. Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """`completion_tokens` counts every sampled token, the one that ended the reply included."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """How a prompt was read: from which token, in which geometry, and what was lent for it. All but `read_from`, the
    reasons and what was parked or came back are 0 when nothing was read. `ring_slots` are the rule's and the room's."""

    read_from: int = 0
    chunk_tokens: int = 0
    window_rows: int = 0  # of the windows that read it, where none but windows did
    ring_slots: int = 0
    ring_entries: int = 0  # blobs that went through the ring
    lent_slots: int = 0  # of the expert cache
    lent_bytes: int = 0
    slab_bytes: int = 0  # of what was lent, for programs to work in
    refilled_bytes: int = 0  # copied back into the lent slots
    room_slots: int = 0  # ring slots in the drafter's block
    room_bytes: int = 0  # copied back into the block, since the read had written there
    moved_segments: int = 0  # behind the arena
    restored_bytes: int = 0  # copied back into regions that were away
    reclaim_ms: float = 0.0  # from the order to bring home what was lent until the host knew that it was; 0: nothing
    no_room: str = ""  # why the room was not taken; "" where it was
    no_segments: str = ""  # why the elastic loan was not
    parked_bytes: int = 0  # of the conversation before, copied to host memory
    unparked_tokens: int = 0  # of a parked conversation, copied back to the card
    unparked_bytes: int = 0
    checkpoint_tokens: int = 0  # the state behind so many was copied back from a checkpoint; 0: none was


NO_READ = ReadFacts()


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """Drafts that got a row of a window, from the drafter or looked up, and how many of them were accepted."""

    num_drafts: int = 0
    num_accepted: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds of the engine's clock. `prompt_n` are the tokens read for this request (fresh tokens); `draft_n`
    drafts got a row of its windows, of which `draft_n_accepted` were what the model then said; these windows read
    `expert_n` experts, `expert_n_hit` of them on the card, where `swap_n` were exchanged meanwhile."""

    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    read: ReadFacts = NO_READ
    draft_n: int = 0
    draft_n_accepted: int = 0
    expert_n: int = 0
    expert_n_hit: int = 0
    swap_n: int = 0

    @property
    def prompt_per_second(self) -> float:
        return 1e3 * self.prompt_n / self.prompt_ms if self.prompt_ms else 0.0

    @property
    def predicted_per_second(self) -> float:
        return 1e3 * self.predicted_n / self.predicted_ms if self.predicted_ms else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """`read_tokens` of `fresh_tokens` prompt tokens are read; tokens that the session had count in neither."""

    read_tokens: int
    fresh_tokens: int


@dataclass(frozen=True, slots=True)
class Text:
    """Text that may be sent: whole characters, nothing that could still become a stop string. Never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is complete. `reason`: "stop" (terminator or stop string) or "length"."""

    reason: str
    usage: Usage
    timings: Timings


@dataclass(frozen=True, slots=True)
class Broken:
    """The engine gave this request up; the client gets an error."""

    message: str
    code: str = "engine_error"  # "shutting_down" when the server stops


Update = Progress | Text | Finished | Broken
