"""The lending switches: what a user may turn on, under exactly these names (`lending.md` 3). Off unless it is set.

A switch is read from the environment or the configuration file and is no command-line option. What may be combined is
`refusals.py`'s to judge.
"""

from dataclasses import dataclass

DEFAULT_REPEAT_MIN_TOKENS = 1024
MIN_REPEAT_MIN_TOKENS = 256
"""`lending.md` 3.2: a lower threshold is raised to this one."""


@dataclass(frozen=True, slots=True)
class LendingSwitches:
    """Field `mtp_room_min` is the switch STRATA_MTP_ROOM_MIN, and so on: the name in capitals behind STRATA_."""

    mtp_room_min: int = -1  # fresh tokens from which a request takes the room; 0: every request; -1: never
    prefill_elastic_loan: bool = False
    prefill_mtp_loan: bool = False
    prefill_head_loan: bool = False
    prefill_retain_startup_chunk: bool = False
    prefill_repeat_loan: bool = False
    prefill_repeat_min_tokens: int | None = None
    mmq_slab: bool = False
    ckpt_reread: bool = False
    prefill_ring: int | None = None  # slots; None: the planner's rule

    def __post_init__(self) -> None:
        assert self.mtp_room_min >= -1, self
        assert self.prefill_ring is None or self.prefill_ring >= 1, self

    @property
    def is_room_on(self) -> bool:
        return self.mtp_room_min >= 0

    @property
    def repeat_min_tokens(self) -> int:
        """Fresh tokens from which an elastic loan is taken again, raised where the domain says so."""
        asked = DEFAULT_REPEAT_MIN_TOKENS if self.prefill_repeat_min_tokens is None else self.prefill_repeat_min_tokens
        return max(MIN_REPEAT_MIN_TOKENS, asked)


def switch_name(field: str) -> str:
    return f"STRATA_{field.upper()}"


def switch_notices(switches: LendingSwitches) -> list[str]:
    """Start-up lines for what is not done as it was written, and yet is no mistake."""
    asked = switches.prefill_repeat_min_tokens
    if asked is None:
        return []
    notices = []
    if asked < MIN_REPEAT_MIN_TOKENS:
        notices.append(f"STRATA_PREFILL_REPEAT_MIN_TOKENS={asked} tokens is raised to {MIN_REPEAT_MIN_TOKENS} tokens")
    if switches.prefill_elastic_loan and not switches.prefill_repeat_loan:
        notices.append(f"STRATA_PREFILL_REPEAT_MIN_TOKENS={asked} has no effect without STRATA_PREFILL_REPEAT_LOAN=1")
    return notices
