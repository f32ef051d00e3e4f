"""The life of a request as one state machine: `step(state, event) -> (state, orders)`, pure.

    Idle --Began--> [Parking] --> [Restoring] --> one of the ways below; given up on either, all is at rest: Idle

    Idle --Began--> Lending --> Reading --(layer by layer, chunk by chunk)--> Closing --> Windowing --Ended--> Idle
      |                '- given up ------------.---- given up ------------------'-> Settling ---------------^ ^
      |--- no slots needed -------> Reading    '--------------------------------------^                       |
      |--- few tokens ------------> ShortReading --(window by window)--> Windowing; given up: Settling        |
      '--- all but the last token in the session -----------------------------------------> Windowing --------'

The prompt path reads tokens up to n - 2; the first window, of one row, takes token n - 1 and gives the first sampled
one. So the output head and the verifier are never needed while a prompt is read, which is what makes them lendable.

Behind a room or an elastic loan the first window does not wait for all that comes home, and what follows it does:

    Windowing --Continued--> Homing --> Windowing       one more way to Settling: Ended in Windowing, or in Homing

With a least probability of drafts a window is launched once they were looked at: Windowing --Drafted--> Windowing.
One that must stage blobs is ordered layer by layer, behind what each router chose, a short read's too: Windowing
--Routed--> Windowing. Meanwhile it knows no other event but `Broke`.

`Ended` is legal in every state but Idle, `Broke` in every state. What may still run is drained, then what was lent is
taken back and refilled (`lending.md` 4, 6-8). A refill that fails is broken and closed again. An event that a state
does not know is our mistake and raises; nothing has changed then.
"""

from dataclasses import dataclass, replace

from strata.core.commands import Copy, CopyPair, Record, Stream, Wait
from strata.core.inventory import StateKind
from strata.core.lending.loan import reserve
from strata.core.lending.room import Room
from strata.core.memory.layout import PromptLayout
from strata.core.memory.planner import Plan
from strata.core.memory.ring import Ring
from strata.core.serving import steps
from strata.core.serving.border import begin_pass, pass_window
from strata.core.serving.borrowing import bring_home, clear_lent, kept_blobs, lend, read_until
from strata.core.serving.chunk import Addresses, Residents, address_rows, open_chunk, run_ahead
from strata.core.serving.conversations import Takeover
from strata.core.serving.cuts import cuts_of, next_chunk
from strata.core.serving.drafting import open_pair, take_in
from strata.core.serving.inputs import pack_header, token_rows
from strata.core.serving.launches import Recipe, launch_embed, prompt_lane, window_lane
from strata.core.serving.layers import order_layers, routed
from strata.core.serving.parking import Parking, Restoring, park, restore, save_state, take_over
from strata.core.serving.recurrent_state import clear_state
from strata.core.serving.request import GenerationRequest
from strata.core.serving.settling import PROMPT_STREAMS, broken, closing_streams, settled, window_streams
from strata.core.serving.short_reads import read_window
from strata.core.serving.staging import hold_back, stage
from strata.core.serving.standing import Standing, notify, tell_home
from strata.core.serving.startup import mend
from strata.core.serving.states import Closing, Homing, Idle, Lending, Reading, Settling, ShortReading, State, Windowing
from strata.core.serving.steps import Arrived, Continued, Ended, Orders, ServingEvent, Upload
from strata.core.serving.swapping import brings_reads, land, swap
from strata.core.serving.windows import commit, drafts, first_inputs, next_rows, window

NO_ORDERS = Orders()


@dataclass(frozen=True, slots=True)
class Machine:
    """The transition table, over a fixed recipe. Holds no state of its own. `turn_ends`: token ids behind which a read
    is cut, where state cannot be rewound. `stages`: the plans of all stages where this is the machine of one of
    several, behind that of `before`; what all of them decide alike follows from these."""

    recipe: Recipe
    places: Addresses
    turn_ends: frozenset[int] = frozenset()
    stages: tuple[Plan, ...] = ()
    before: Plan | None = None

    @property
    def plan(self) -> Plan:
        return self.recipe.plan

    def step(self, state: State, event: ServingEvent) -> tuple[State, Orders]:
        """Raises AssertionError for an event that is illegal in `state`."""
        at = state.at.booked(event.num_acts) if isinstance(event, steps.Broke) else state.at.reached()
        is_staging = isinstance(state, Windowing | ShortReading) and state.held.commands
        assert not is_staging or isinstance(event, steps.Routed | steps.Broke), event
        if isinstance(state, Windowing) and not state.is_drafting and isinstance(event, Continued | Ended):
            at = replace(at, cache=at.cache.after_window(event.reads))
        after, orders = self._dispatch(state if at is state.at else replace(state, at=at), event)
        after.at.check()
        checkpoints = after.at.checkpoints.kept(len(after.at.session.ids))
        if not orders.acts and checkpoints is after.at.checkpoints:
            return after, orders
        return replace(after, at=replace(after.at, ordered=orders.acts, checkpoints=checkpoints)), orders

    def _dispatch(self, state: State, event: ServingEvent) -> tuple[State, Orders]:
        match state, event:
            case Idle(), steps.Started():
                return self._lend_from_start(state.at)
            case Idle(), steps.Began(request):
                return self._begin(state.at, request)
            case Parking(), Arrived():
                return self._take_over(state.arrived(), state.request, state.takeover)
            case Restoring(), Arrived():
                return self._read(state.arrived(), state.request)
            case ((Parking() | Restoring()), Ended()):
                return Idle(state.arrived()), Orders()
            case Lending(), Arrived():
                return self._commit(state.at, state.request, state.layout, takes_segments=state.takes_segments)
            case Reading(is_routing=True), steps.Routed(experts):
                return routed(self.recipe, self.places, state, experts)
            case Reading(is_routing=False), Arrived():
                return self._next_chunk(state)
            case Closing(request=GenerationRequest() as request), Arrived():
                return self._first_window(state.at, request)
            case ((Windowing() | ShortReading()), steps.Routed(experts)) if state.held.commands:
                staged = stage(self.plan, self.places, state.at, state.held, experts)
                return self._launch(state, NO_ORDERS, staged)
            case Windowing(), Continued():
                go_on = self._await_home if state.at.is_coming_home else self._next_window
                return go_on(state, event)
            case Homing(), Arrived():
                return self._next_window(replace(state.window, at=state.at), state.behind)
            case Homing(), Ended():
                return self._end(replace(state.window, at=state.at), state.behind.token_ids)
            case Windowing(is_drafting=True), steps.Drafted(num_drafts):
                return self._window(replace(state, rows=1 + num_drafts, is_drafting=False), NO_ORDERS)
            case Windowing(is_drafting=True), Ended():
                return self._rest(state.at, NO_ORDERS)
            case Windowing(), Ended(token_ids):
                return self._end(state, token_ids)
            case ShortReading(), Arrived():
                return self._next_short(state)
            case ShortReading(), Ended():
                return self._settle(self._given_up(state.at))
            case Reading(), Ended():
                return self._close(read_until(state.at, state.chunk), None)
            case (Lending(), Ended()) | (Closing(request=None), Arrived()) | (Closing(), Ended()):
                return self._settle(state.at)
            case Settling(), (Arrived() | Ended()):
                at, acts = settled(state.at)
                return Idle(replace(at, is_broken=False)), Orders(acts=acts)
            case _, steps.Broke():
                drafter = (Stream.DRAFTER,) if self.plan.draft else ()
                return self._close(broken(self.plan, state.at), None, (*PROMPT_STREAMS, Stream.VERIFIER, *drafter))
        raise AssertionError(f"{type(event).__name__} is illegal in {type(state).__name__}")

    def _lend_from_start(self, at: Standing) -> tuple[State, Orders]:
        """The elastic loan of the start: the first request takes it home before its first window."""
        if self.plan.zone is None:
            return Idle(at), Orders()
        at, acts = lend(self.plan, at, takes_segments=True)
        return Idle(at), Orders(acts=acts)

    def _begin(self, at: Standing, request: GenerationRequest) -> tuple[State, Orders]:
        """Decide once what is taken over: of the live session, or of a parked one."""
        assert len(request.prompt_ids) + request.max_tokens <= self.plan.options.context_tokens
        at, takeover = take_over(self.plan, self.stages or (self.plan,), at, request)
        return park(self.plan, at, request, takeover) if takeover.park else self._take_over(at, request, takeover)

    def _take_over(self, at: Standing, request: GenerationRequest, takeover: Takeover) -> tuple[State, Orders]:
        """What the live session holds beyond `kept` is safe, or given up."""
        at = replace(at, session=at.session.kept(takeover.kept))
        comes_back = takeover.restore is not None or len(self.stages) > 1
        return restore(self.plan, at, request, takeover) if comes_back else self._read(at, request)

    def _read(self, at: Standing, request: GenerationRequest) -> tuple[State, Orders]:
        """Decide once, when it is known what must be read: nothing, or how, and what is lent for it."""
        plan, policy = self.plan, self.plan.options.policy
        fresh_tokens = len(request.prompt_ids) - len(at.session.ids)
        path_tokens = fresh_tokens - 1  # the last fresh token is the window's
        declined = policy.decline(fresh_tokens, is_out=at.segments is not None, moves_block=plan.moves_block)
        has_room, has_segments = not declined.room, not declined.segments
        takes_segments = has_segments and at.segments is None
        if path_tokens == 0:
            return self._first_window(at, request, has_room=has_room)
        if policy.is_short(fresh_tokens):
            return self._short_read(at, request, has_room=has_room)
        keeps_startup = at.segments is not None and policy.retains_startup
        planned_tokens = plan.options.context_tokens if keeps_startup else path_tokens
        # The common chunk is the smallest that any stage can lend (`lending.md` 5, invariant 43).
        common = min((stage.read(planned_tokens).layout.chunk_tokens for stage in self.stages), default=None)
        read = plan.read(planned_tokens, has_segments=has_segments, has_room=has_room, chunk_tokens=common)
        if has_room:
            at = replace(at, room=Room(plan.block, plan.room, first_slot=read.num_rule_slots))
            read = read.with_room(plan.room)
        if not read.lent:
            return self._commit(at, request, read.layout, takes_segments=takes_segments)
        slots = at.cache.slots[len(at.cache.slots) - len(read.lent) :]
        at = replace(at, loan=reserve(read.lent_extent, slots, stamp=at.serial), table_version=at.table_version + 1)
        cleared = clear_lent(plan, self.places, at)
        at, notice = notify(at, (Stream.VERIFIER,))
        return Lending(at, request, read.layout, takes_segments), cleared.then(notice)

    def _short_read(self, at: Standing, request: GenerationRequest, *, has_room: bool) -> tuple[State, Orders]:
        """Windows read on what is at home, so what is out from the start comes first. A room opens and closes."""
        at, orders, later = bring_home(self.plan, self.places, at)
        return self._short_window(at, request, self._passing_room(orders, has_room=has_room).then(later))

    def _short_window(self, at: Standing, request: GenerationRequest, orders: Orders) -> tuple[State, Orders]:
        """As many rows as a window has, and up to the next cut at which a state is left."""
        ids, start, version = request.prompt_ids, len(at.session.ids), at.table_version
        rows = min(self.plan.verifier.max_rows, self._next_end(at, request) - start)
        now, behind = ids[start : start + rows], ids[start + 1 : start + rows + 1]
        given = read_window(self.recipe, now, start=start, table_version=version, next_ids=behind)
        at, given = pass_window(self.plan, self.before, at, given, rows=rows)
        return self._launch(ShortReading(at, request, rows), orders, given)

    def _next_short(self, state: ShortReading) -> tuple[State, Orders]:
        at, acts = settled(state.at)
        ids, start = state.request.prompt_ids, len(at.session.ids)
        at = replace(at, session=at.session.grown(*ids[start : start + state.rows]))
        orders = Orders(acts=acts)
        if len(at.session.ids) in at.checkpoints.wanted(ids, self.turn_ends):
            at, saved = save_state(self.plan, at, Stream.VERIFIER)
            orders = orders.then(saved)
        if len(at.session.ids) < len(ids) - 1:
            return self._short_window(at, state.request, orders)
        after, first = self._first_window(at, state.request)
        return after, orders.then(first)

    def _next_end(self, at: Standing, request: GenerationRequest) -> int:
        """Where what reads next must stop: at a cut at which a state is left, or ahead of the last token."""
        ends = (*at.checkpoints.wanted(request.prompt_ids, self.turn_ends), len(request.prompt_ids) - 1)
        return next(end for end in ends if end > len(at.session.ids))

    def _passing_room(self, orders: Orders, *, has_room: bool) -> Orders:
        """No chunk is read, so a room opens and closes behind the acts of `orders`, and no byte of it is written."""
        if not has_room:
            return orders
        room = Room(self.plan.block, self.plan.room, first_slot=0)
        return replace(orders, acts=(*orders.acts, room.open, room.close))

    def _given_up(self, at: Standing) -> Standing:
        return replace(at, session=at.session.after_giving_up(self.plan.inventory.state_kinds))

    def _commit(
        self, at: Standing, request: GenerationRequest, layout: PromptLayout, *, takes_segments: bool
    ) -> tuple[State, Orders]:
        at, acts = lend(self.plan, at, takes_segments=takes_segments)
        resident = kept_blobs(self.plan, at)
        after, orders = self._open_chunk(at, request, layout, Ring(len(layout.ring)), resident)
        return after, replace(orders, acts=acts)

    def _open_chunk(
        self, at: Standing, request: GenerationRequest, layout: PromptLayout, ring: Ring, resident: Residents
    ) -> tuple[State, Orders]:
        """The next chunk of the prompt, from where the session ends to the next cut at which a state is left. What
        recurrent layers compute in blocks, all stages cut alike."""
        lane, staging, start = prompt_lane(layout), self.plan.staging, len(at.session.ids)
        ids, stop = request.prompt_ids, self._next_end(at, request)
        has_blocks = any(StateKind.RECURRENT in plan.inventory.state_kinds for plan in self.stages or (self.plan,))
        cuts = cuts_of(ids[:-1], turn_ends=self.turn_ends) if has_blocks else None
        end, runs = next_chunk(cuts, start=start, stop=stop, most_tokens=layout.chunk_tokens)
        room = at.room if end == len(ids) - 1 else None
        chunk = open_chunk(self.recipe, layout, resident, start=start, rows=end - start, ring=ring, room=room)
        chunk, copies = run_ahead(self.plan, replace(chunk, block_runs=runs))
        given = [token_rows(staging.prompt_tokens, lane.buffers.tokens, ids[start:end])]
        if self.plan.draft is not None:
            given.append(token_rows(staging.next_tokens, lane.buffers.next_tokens, ids[start + 1 : end + 1]))
        if chunk.is_streaming and self.plan.inventory.num_moe_layers:
            given.append(address_rows(self.plan, chunk, self.places, ()))
        uploads = (Upload(staging.prompt_header, pack_header(start)), *(upload for upload, _ in given))
        header = CopyPair(staging.prompt_header, lane.whole(lane.buffers.header))
        inputs = (header, *(CopyPair(source, lane.whole(target)) for _, (source, target) in given))
        cleared = clear_state(self.plan, lane.stream) if start == 0 else ()
        at, entry = begin_pass(self.plan, self.before, at, lane, rows=chunk.rows)
        embed = () if entry.handed else (launch_embed(self.recipe, lane, rows=chunk.rows),)
        pair = open_pair(self.recipe, lane, start=start)
        # The link carries what was ordered first: inputs would wait for a whole ring.
        opening = (Copy(lane.stream, inputs), *copies, *cleared, *pair, *entry.commands, *embed)
        orders = Orders(uploads, opening, handed=entry.handed)
        return order_layers(self.recipe, self.places, Reading(at, request, chunk), orders)

    def _next_chunk(self, state: Reading) -> tuple[State, Orders]:
        """Behind a layer: those that follow, or, when all of the chunk is known to be read, the next chunk."""
        chunk, ids, told = state.chunk, state.request.prompt_ids, state.told[1:]
        if told or chunk.layer < self.plan.inventory.num_layers:
            return order_layers(self.recipe, self.places, replace(state, told=told), Orders(awaits=told[:1]))
        at = replace(state.at, session=state.at.session.grown(*ids[chunk.start : chunk.start + chunk.rows]))
        saved = Orders()
        if len(at.session.ids) in at.checkpoints.wanted(ids, self.turn_ends):
            at, saved = save_state(self.plan, at, Stream.PROMPT)
        if len(at.session.ids) == len(ids) - 1:
            after, orders = self._close(read_until(at, chunk), state.request, closing_streams(at))
        else:
            after, orders = self._open_chunk(at, state.request, chunk.layout, chunk.ring, chunk.resident)
        return after, saved.then(orders)

    def _close(
        self, at: Standing, request: GenerationRequest | None, streams: tuple[Stream, ...] = PROMPT_STREAMS
    ) -> tuple[State, Orders]:
        """Drain `streams`. The verifier's stream waits for the prompt stream too: K/V and state are handed over."""
        if request is None:
            at = self._given_up(at)
        handover = (Record(Stream.PROMPT, "chunk_done"), Wait(Stream.VERIFIER, "chunk_done"))
        at, notice = notify(at, streams)
        return Closing(at, request), Orders((), handover).then(notice)

    def _settle(self, at: Standing) -> tuple[State, Orders]:
        """Everything is at rest: take back what was lent, if anything was, and make whole what broke."""
        if not at.is_lending and not at.is_broken:
            return Idle(at), Orders()
        at, orders, later = bring_home(self.plan, self.places, at)
        orders = orders.then(later)
        if at.is_broken:
            mended = mend(self.plan, self.places, at.cache, version=at.table_version + 1)
            at = replace(at, table_version=at.table_version + 1, cache=at.cache.landed())
            orders = orders.then(mended)
        at, notice = notify(at, window_streams(at))
        return Settling(at), orders.then(notice)

    def _first_window(
        self, at: Standing, request: GenerationRequest, *, has_room: bool = False
    ) -> tuple[State, Orders]:
        """Lent slots are refilled on the way. `has_room`: nothing is read, so the room opens and closes, and no byte of
        it is written."""
        position = len(request.prompt_ids) - 1
        assert len(at.session.ids) == position, (len(at.session.ids), position)
        at, orders, later = bring_home(self.plan, self.places, at)
        if at.is_coming_home:
            at, later = replace(at, checks=later.checks), replace(later, checks=())
        elif at.loan is not None:
            at, told = tell_home(at)
            orders = orders.then(told)
        orders = self._passing_room(orders, has_room=has_room)
        state = Windowing(at, request, request.prompt_ids[-1], num_left=request.max_tokens)
        inputs = first_inputs(self.plan, request) if self.plan.inventory.has_head else Orders()
        pair = Orders((), open_pair(self.recipe, window_lane(self.plan), start=position))
        return self._window(state, orders.then(inputs).then(pair), later)

    def _await_home(self, state: Windowing, behind: Continued) -> tuple[State, Orders]:
        """The first window is done, and the client has its token; block and parts may still be on their way."""
        at, notice = notify(replace(state.at, checks=()), (Stream.COPY,))
        return Homing(at, state, behind), Orders(checks=state.at.checks).then(notice)

    def _next_window(self, state: Windowing, behind: Continued) -> tuple[State, Orders]:
        """Nothing is lent any more, so the drafter may run."""
        at, acts = settled(state.at)
        token_ids, given = behind.token_ids, behind.drafts
        at = replace(at, session=at.session.grown(state.token_id, *token_ids[:-1]))
        num_left = state.num_left - len(token_ids)
        rows = next_rows(self.plan, position=len(at.session.ids), num_left=num_left, num_given=len(given))
        at, swapped = swap(self.plan, self.places, at)
        orders = Orders(acts=acts).then(self._committed(state, token_ids, is_taken_in=rows == 1)).then(swapped)
        if rows > 1:
            version = at.table_version
            orders = orders.then(drafts(self.plan, given, standing_rows=len(token_ids), table_version=version))
        is_drafting = rows > 1 and self.plan.options.least_probability > 0
        return self._window(Windowing(at, state.request, token_ids[-1], num_left, rows, is_drafting), orders)

    def _end(self, state: Windowing, token_ids: tuple[int, ...]) -> tuple[State, Orders]:
        """The reply took `token_ids` of what its last window gave."""
        at = replace(state.at, session=state.at.session.grown(state.token_id, *token_ids[:-1]))
        return self._rest(at, self._committed(state, token_ids, is_taken_in=True))

    def _rest(self, at: Standing, orders: Orders) -> tuple[State, Orders]:
        """Behind a reply: what is on its way lands, and comes home."""
        if at.cache.moving:
            at, landing = land(self.plan, self.places, at)
            orders = orders.then(landing)
        if not orders.commands and not at.is_coming_home:
            at, acts = settled(at)
            return Idle(at), Orders(acts=acts)
        after, notice = notify(replace(at, checks=()), window_streams(at))
        return Settling(after), replace(orders, checks=at.checks).then(notice)

    def _committed(self, state: Windowing, token_ids: tuple[int, ...], *, is_taken_in: bool) -> Orders:
        """What follows the rows that the reply took. `is_taken_in`: the drafter too, which does not draft now."""
        rows, version = len(token_ids), state.at.table_version
        orders = commit(self.plan, rows=state.rows, taken_rows=len(token_ids), table_version=version)
        behind = len(state.at.session.ids) + rows
        return orders.then(take_in(self.recipe, position=behind, rows=rows)) if is_taken_in else orders

    def _window(self, state: Windowing, orders: Orders, later: Orders = NO_ORDERS) -> tuple[State, Orders]:
        """`later` takes the link once the window has its inputs. Where its drafts are looked at first, only those are
        awaited, for which the verifier's stream waits."""
        at, launched, version = state.at, Orders(), state.at.table_version
        if not state.is_drafting:
            if self.plan.inventory.has_head:
                is_counted = brings_reads(self.plan, at.cache)
                launched = window(self.recipe, rows=state.rows, table_version=version, is_counted=is_counted)
            else:
                launched = read_window(self.recipe, (state.token_id,), start=len(at.session.ids), table_version=version)
            at, launched = pass_window(self.plan, self.before, at, launched, rows=state.rows)
        if later.commands:
            inputs = Orders((), (Record(Stream.VERIFIER, "inputs"), Wait(Stream.COPY, "inputs")))
            launched = inputs.then(launched).then(later)
        return self._launch(replace(state, at=at), orders, launched)

    def _launch(self, window: Windowing | ShortReading, orders: Orders, launched: Orders) -> tuple[State, Orders]:
        """A window, or as much of it as goes before the host has seen what a router chose."""
        at, (launched, held) = window.at, hold_back(self.plan, orders.then(launched))
        is_first = isinstance(window, Windowing) and at.is_coming_home
        at, notice = notify(at, (Stream.VERIFIER,) if held.commands or is_first else window_streams(at))
        return replace(window, at=at, held=held), launched.then(notice)
