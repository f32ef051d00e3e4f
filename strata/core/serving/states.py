"""The states of the serving machine: what each knows beside the standing that all of them carry. The picture of the
transitions is in `machine.py`."""

from dataclasses import dataclass, replace

from strata.core.memory.layout import PromptLayout
from strata.core.memory.planner import Plan
from strata.core.memory.residency import Residency
from strata.core.serving.chunk import ChunkState
from strata.core.serving.parking import Parking, Restoring
from strata.core.serving.request import GenerationRequest
from strata.core.serving.standing import Standing, first_standing
from strata.core.serving.steps import Continued, Orders


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is open and nothing is lent."""

    at: Standing


@dataclass(frozen=True, slots=True)
class Lending:
    """A loan is reserved; the table without its pairs is on its way."""

    at: Standing
    request: GenerationRequest
    layout: PromptLayout
    takes_segments: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """A chunk is under way, ordered as far as `chunk.layer`; `is_routing`: the router's choice of that layer is
    awaited; `told`: notices of layers that have not come yet, the one that is awaited first."""

    at: Standing
    request: GenerationRequest
    chunk: ChunkState
    is_routing: bool = False
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShortReading:
    """A window of `rows` rows reads the tokens behind the session's. `held`: as in `Windowing`."""

    at: Standing
    request: GenerationRequest
    rows: int
    held: Orders = Orders()  # noqa: RUF009  frozen


@dataclass(frozen=True, slots=True)
class Closing:
    """Streams are draining; `request` goes on to its first window, None if it was given up."""

    at: Standing
    request: GenerationRequest | None


@dataclass(frozen=True, slots=True)
class Settling:
    """Something is on its way that nobody's window waits for: what was lent, or recurrent state."""

    at: Standing


@dataclass(frozen=True, slots=True)
class Windowing:
    """The window in flight, or sampled last, has `rows` rows: it feeds `token_id` to the cell behind the session's, and
    drafts to those that follow. `num_left`: tokens that the reply had still to come when it was launched.
    `is_drafting`: its drafts are awaited, which may be fewer, and it is not launched yet. `held`: it goes layer by
    layer, a router's choice is awaited, and these follow, the experts of that layer first; none once it is ordered."""

    at: Standing
    request: GenerationRequest
    token_id: int
    num_left: int
    rows: int = 1
    is_drafting: bool = False
    held: Orders = Orders()  # noqa: RUF009  frozen


@dataclass(frozen=True, slots=True)
class Homing:
    """The first window's token is out; what it did not wait for is awaited, before drafts or a second window."""

    at: Standing
    window: Windowing
    behind: Continued


State = Idle | Parking | Restoring | Lending | Reading | ShortReading | Closing | Settling | Windowing | Homing


def first_state(plan: Plan, heat: tuple[int, ...] = ()) -> Idle:
    """`heat`: of the blobs, as another server left it; the hottest have a slot from the start. () for none."""
    cache = Residency(plan.slots, heat)
    if heat:
        cache = replace(cache.exchanged(plan.inventory, most=plan.inventory.num_pairs, is_free=True), moving=())
    return Idle(first_standing(plan, cache))


def landed(state: State) -> State:
    """All that was ordered last took place."""
    return replace(state, at=state.at.booked()) if state.at.ordered else state
