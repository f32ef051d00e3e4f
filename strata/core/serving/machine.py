"""The life of a request as one state machine: `step(state, event) -> (state, orders)`, pure.

    Idle --Began--> Lending --> Reading --(layer by layer, chunk by chunk)--> Closing --> Windowing --Ended--> Idle
      |                '- given up ------------.---- given up ------------------'-> Settling ---------------^ ^
      |--- no slots needed -------> Reading    '--------------------------------------^                       |
      '--- all but the last token in the session -----------------------------------------> Windowing --------'

The prompt path reads tokens up to n - 2; the first window, of one row, takes token n - 1 and gives the first sampled
one. So the output head and the verifier are never needed while a prompt is read, which is what makes them lendable.

`Ended` and `Broke` are legal in every state but Idle. What may still run is drained, then what was lent is taken back
and refilled (`lending.md` 4, 6-8); a window that was awaited leaves nothing of either kind. A refill that fails is
broken and closed again. An event that a state does not know is our mistake and raises; nothing has changed then.
"""

import struct
from dataclasses import dataclass, replace

from strata.core.commands import Access, Command, Copy, CopyPair, GraphLaunch, Notify, Record, Stream, Transfer, Wait
from strata.core.lending.ledger import Holding, Ledger
from strata.core.lending.loan import Loan, LoanPhase, reserve
from strata.core.memory.layout import INT32_BYTES, PromptLayout
from strata.core.memory.planner import Plan
from strata.core.memory.ring import Ring
from strata.core.serving.borrowing import clear_lent, kept_blobs, refill
from strata.core.serving.chunk import Addresses, ChunkState, open_chunk, read_experts, run_ahead
from strata.core.serving.inputs import copy_to_verifier, pack_header, sampler_inputs
from strata.core.serving.launches import (
    Recipe,
    launch_attention,
    launch_embed,
    launch_ffn,
    launch_router,
    prompt_lane,
)
from strata.core.serving.prefix import NO_SESSION, Session
from strata.core.serving.request import GenerationRequest
from strata.core.serving.startup import FIRST_TABLE_VERSION, mend
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Orders, Routed, ServingEvent, Upload

WINDOW_GRAPH = "window 1"
"""Windows of one row; wider ones come with drafts."""

PROMPT_STREAMS = (Stream.PROMPT, Stream.COPY)


@dataclass(frozen=True, slots=True)
class Standing:
    """What every state carries. `serial` numbers the notices, so that no two tags are equal; `session` is what K/V
    holds; `table_version` the table published last; `is_broken`: a command failed since all was at rest, so what it was
    to write is anything; `ordered` the transfers that are in the books once the shell says that they took place."""

    ledger: Ledger
    serial: int = 0
    session: Session = NO_SESSION
    table_version: int = FIRST_TABLE_VERSION
    loan: Loan | None = None
    is_broken: bool = False
    ordered: tuple[Transfer, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Reading:
    """A chunk is under way; `is_routing`: the router's choice of `chunk.layer` is awaited."""

    at: Standing
    request: GenerationRequest
    chunk: ChunkState
    is_routing: bool = False


@dataclass(frozen=True, slots=True)
class Closing:
    """Streams are draining; `request` goes on to its first window, None if it was given up."""

    at: Standing
    request: GenerationRequest | None


@dataclass(frozen=True, slots=True)
class Settling:
    """Lent slots are being refilled, and nobody waits for a window."""

    at: Standing


@dataclass(frozen=True, slots=True)
class Windowing:
    """The window in flight, or sampled last, feeds `token_id` to the cell behind the session's."""

    at: Standing
    request: GenerationRequest
    token_id: int


State = Idle | Lending | Reading | Closing | Settling | Windowing


def first_state(plan: Plan) -> Idle:
    """After start: every region belongs to the owner of its name."""
    return Idle(Standing(Ledger(tuple(Holding(region.extent, region.name) for region in plan.regions))))


@dataclass(frozen=True, slots=True)
class Machine:
    """The transition table, over a fixed recipe. Holds no state of its own."""

    recipe: Recipe
    places: Addresses

    @property
    def plan(self) -> Plan:
        return self.recipe.plan

    def step(self, state: State, event: ServingEvent) -> tuple[State, Orders]:
        """Raises AssertionError for an event that is illegal in `state`."""
        at = state.at
        done = at.ordered[: event.num_transfers] if isinstance(event, Broke) else at.ordered
        booked = replace(state, at=replace(at, ledger=at.ledger.after(done), ordered=()))
        after, orders = self._dispatch(booked, event)
        after.at.ledger.check()
        return replace(after, at=replace(after.at, ordered=orders.transfers)), orders

    def _dispatch(self, state: State, event: ServingEvent) -> tuple[State, Orders]:
        match state, event:
            case Idle(), Began(request):
                return self._begin(state.at, request)
            case Lending(), Arrived():
                return self._commit(state)
            case Reading(is_routing=True), Routed(experts):
                return self._experts(state, experts)
            case Reading(is_routing=False), Arrived():
                return self._next_chunk(state)
            case Closing(request=GenerationRequest() as request), Arrived():
                return self._first_window(state.at, request)
            case Windowing(), Continued(token_id):
                at = replace(_settled(state.at), session=state.at.session.grown(state.token_id))
                return self._window(Windowing(at, state.request, token_id), Orders())
            case Windowing(), Ended():
                return Idle(replace(_settled(state.at), session=state.at.session.grown(state.token_id))), Orders()
            case Reading(), Ended():
                return self._close(state.at, None)
            case (Lending(), Ended()) | (Closing(request=None), Arrived()) | (Closing(), Ended()):
                return self._settle(state.at)
            case Settling(), (Arrived() | Ended()):
                return Idle(replace(_settled(state.at), is_broken=False)), Orders()
            case ((Lending() | Reading() | Closing() | Settling() | Windowing()), Broke()):
                at = replace(state.at, session=NO_SESSION, is_broken=True)
                return self._close(at, None, (*PROMPT_STREAMS, Stream.VERIFIER))
        raise AssertionError(f"{type(event).__name__} is illegal in {type(state).__name__}")

    def _begin(self, at: Standing, request: GenerationRequest) -> tuple[State, Orders]:
        """Decide once, when it is known what must be read: nothing, or how, and what is lent for it."""
        assert len(request.prompt_ids) + request.max_tokens <= self.plan.options.context_tokens
        at = replace(at, session=at.session.kept(at.session.read_from(request.prompt_ids)))
        path_tokens = len(request.prompt_ids) - 1 - len(at.session.ids)  # the last fresh token is the window's
        if path_tokens == 0:
            return self._first_window(at, request)
        read = self.plan.read(path_tokens)
        if not read.lent:
            return self._open_chunk(at, request, read.layout, Ring(len(read.layout.ring)))
        loan = reserve(read.extent, read.lent, stamp=at.serial)
        at = replace(at, loan=loan, table_version=at.table_version + 1)
        cleared = clear_lent(self.plan, self.places, loan, version=at.table_version)
        at, notice = _notify(at, (Stream.VERIFIER,))
        return Lending(at, request, read.layout), cleared.then(notice)

    def _commit(self, state: Lending) -> tuple[State, Orders]:
        assert state.at.loan is not None
        loan = state.at.loan.moved(LoanPhase.LENT)
        ring = Ring(len(state.layout.ring))
        after, orders = self._open_chunk(replace(state.at, loan=loan), state.request, state.layout, ring)
        return after, replace(orders, transfers=(loan.lend,))

    def _open_chunk(
        self, at: Standing, request: GenerationRequest, layout: PromptLayout, ring: Ring
    ) -> tuple[State, Orders]:
        """The next chunk of the prompt, from where the session ends."""
        lane, staging, start = prompt_lane(layout), self.plan.staging, len(at.session.ids)
        rows = min(layout.chunk_tokens, len(request.prompt_ids) - 1 - start)
        resident = kept_blobs(self.plan, at.loan)
        chunk = open_chunk(self.recipe, layout, resident, start=start, rows=rows, ring=ring)
        chunk, copies = run_ahead(self.plan, chunk)
        ids = request.prompt_ids[start : start + rows]
        tokens = staging.prompt_tokens.part(offset_bytes=0, size_bytes=rows * INT32_BYTES)
        uploads = (
            Upload(staging.prompt_header, pack_header(start)),
            Upload(tokens, struct.pack(f"<{rows}i", *ids)),
        )
        inputs = (
            CopyPair(staging.prompt_header, lane.whole(lane.buffers.header)),
            CopyPair(tokens, lane.rows_of(lane.buffers.tokens, rows)),
        )
        opening = (*copies, Copy(lane.stream, inputs), launch_embed(self.recipe, lane, rows=rows))
        return self._layers(Reading(at, request, chunk), Orders(uploads, opening))

    def _layers(self, state: Reading, orders: Orders) -> tuple[State, Orders]:
        """Open the chunk's next layer and end at the next point where the host must look: a router's choice, or a
        layer's end (which is where cancels are seen)."""
        chunk, lane = state.chunk, prompt_lane(state.chunk.layout)
        commands: tuple[Command, ...] = ()
        is_routing = False
        if chunk.layer < self.plan.inventory.num_layers:
            commands = (launch_attention(self.recipe, lane, layer=chunk.layer, rows=chunk.rows),)
            is_routing = self.recipe.is_moe(chunk.layer)
            if is_routing:
                counts = CopyPair(lane.whole(lane.buffers.router_counts), self.plan.staging.router_counts)
                router = launch_router(self.recipe, lane, layer=chunk.layer, rows=chunk.rows)
                commands += (router, Copy(lane.stream, (counts,)))
            else:
                commands += (launch_ffn(self.recipe, lane, layer=chunk.layer, rows=chunk.rows),)
                chunk = replace(chunk, layer=chunk.layer + 1)
        at, notice = _notify(state.at, (Stream.PROMPT,))
        return Reading(at, state.request, chunk, is_routing), orders.then(Orders((), commands)).then(notice)

    def _experts(self, state: Reading, experts: tuple[int, ...]) -> tuple[State, Orders]:
        if state.chunk.is_streaming:
            experts = tuple(range(self.plan.inventory.num_experts))
        chunk, uploads, commands = read_experts(self.recipe, state.chunk, self.places, experts)
        chunk = replace(chunk, layer=chunk.layer + 1)
        return self._layers(replace(state, chunk=chunk), Orders(uploads, commands))

    def _next_chunk(self, state: Reading) -> tuple[State, Orders]:
        chunk, ids = state.chunk, state.request.prompt_ids
        if chunk.layer < self.plan.inventory.num_layers:
            return self._layers(state, Orders())
        at = replace(state.at, session=state.at.session.grown(*ids[chunk.start : chunk.start + chunk.rows]))
        if len(at.session.ids) == len(ids) - 1:
            return self._close(at, state.request)
        return self._open_chunk(at, state.request, chunk.layout, chunk.ring)

    def _close(
        self, at: Standing, request: GenerationRequest | None, streams: tuple[Stream, ...] = PROMPT_STREAMS
    ) -> tuple[State, Orders]:
        """Drain `streams`. The verifier's stream waits for the prompt stream too: K/V is handed over."""
        handover = (Record(Stream.PROMPT, "chunk_done"), Wait(Stream.VERIFIER, "chunk_done"))
        at, notice = _notify(at, streams)
        return Closing(at, request), Orders((), handover).then(notice)

    def _settle(self, at: Standing) -> tuple[State, Orders]:
        """Everything is at rest: take back what was lent, if anything was, and make whole what broke."""
        if at.loan is None and not at.is_broken:
            return Idle(at), Orders()
        at, orders = (at, Orders()) if at.loan is None else self._reclaim(at)
        if at.is_broken:
            at = replace(at, table_version=at.table_version + 1)
            orders = orders.then(mend(self.plan, self.places, version=at.table_version))
        at, notice = _notify(at, (Stream.VERIFIER,))
        return Settling(at), orders.then(notice)

    def _reclaim(self, at: Standing) -> tuple[Standing, Orders]:
        assert at.loan is not None
        version = at.table_version + 1
        orders = refill(self.plan, self.places, at.loan, at.ledger, version=version)
        return replace(at, loan=at.loan.moved(LoanPhase.RESTORING), table_version=version), orders

    def _first_window(self, at: Standing, request: GenerationRequest) -> tuple[State, Orders]:
        """Lent slots are refilled on the way. Sampler inputs go up here and not when the request begins: a read that is
        given up then leaves no copy behind that nobody waited for, while the next request writes its staging."""
        staging, verifier = self.plan.staging, self.plan.verifier
        position = len(request.prompt_ids) - 1
        assert len(at.session.ids) == position, (len(at.session.ids), position)
        at, orders = (at, Orders()) if at.loan is None else self._reclaim(at)
        token = staging.window_tokens.part(offset_bytes=0, size_bytes=INT32_BYTES)
        uploads, commands = sampler_inputs(self.plan, request)
        uploads += (
            Upload(staging.window_header, pack_header(position)),
            Upload(token, struct.pack("<i", request.prompt_ids[-1])),
        )
        target = verifier.buffers.tokens.part(offset_bytes=0, size_bytes=INT32_BYTES)
        commands += (copy_to_verifier((staging.window_header, verifier.buffers.header), (token, target)),)
        state = Windowing(at, request, request.prompt_ids[-1])
        return self._window(state, orders.then(Orders(uploads, commands)))

    def _window(self, state: Windowing, orders: Orders) -> tuple[State, Orders]:
        result = Access(self.plan.verifier.window.result, "verifier")
        window = (
            GraphLaunch(Stream.VERIFIER, WINDOW_GRAPH, state.at.table_version),
            Copy(Stream.VERIFIER, (CopyPair(result, self.plan.staging.result),)),
        )
        at, notice = _notify(state.at, (Stream.VERIFIER,))
        return replace(state, at=at), orders.then(Orders((), window)).then(notice)


def _settled(at: Standing) -> Standing:
    """What was awaited behind a refill has been reached: the loan, if there was one, is over."""
    if at.loan is not None:
        at.loan.check_settled(at.ledger)
    return replace(at, loan=None)


def _notify(at: Standing, streams: tuple[Stream, ...]) -> tuple[Standing, Orders]:
    """Await all that was issued on `streams`."""
    notices = tuple(Notify(stream, f"{stream} {at.serial}") for stream in streams)
    return replace(at, serial=at.serial + 1), Orders((), notices, tuple(notice.tag for notice in notices))
