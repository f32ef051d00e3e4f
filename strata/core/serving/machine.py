"""The life of a request as one state machine: `step(state, event) -> (state, orders)`, pure.

    Idle --Began--> Reading --(layer by layer, chunk by chunk)--> Closing --> Windowing --Ended--> Idle
            \\_____________ all but the last token in the session ______________^

The prompt path reads tokens 0 .. n-2; the first window, of one row, takes token n-1 and gives the first sampled token.
So the output head and the verifier are never needed while a prompt is read, which is what makes them lendable.
`Ended` and `Broke` are legal in every state but Idle and run the same closing sequence from each: what may still run
is drained before anything else may happen (`lending.md` 4, 6-8). An event that a state does not know is our mistake
and raises.
"""

import struct
from dataclasses import dataclass, replace

from strata.core.commands import Access, Command, Copy, CopyPair, GraphLaunch, Notify, Record, Stream, Wait
from strata.core.memory.layout import INT32_BYTES
from strata.core.memory.planner import Plan
from strata.core.memory.ring import Ring
from strata.core.serving.chunk import Addresses, ChunkState, is_streaming, open_chunk, read_experts, run_ahead
from strata.core.serving.inputs import copy_to_verifier, pack_header, sampler_inputs
from strata.core.serving.launches import (
    Lane,
    Recipe,
    blob_content,
    launch_attention,
    launch_embed,
    launch_ffn,
    launch_router,
    prompt_lane,
)
from strata.core.serving.prefix import NO_SESSION, Session
from strata.core.serving.request import GenerationRequest
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Orders, Routed, ServingEvent, Upload

TABLE_VERSION = 1
WINDOW_GRAPH = "window 1"
"""Windows of one row; wider ones come with drafts."""


PROMPT_STREAMS = (Stream.PROMPT, Stream.COPY)


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is open. `serial` numbers the notices, so that no two tags are equal; `session` is what K/V holds."""

    serial: int = 0
    session: Session = NO_SESSION


@dataclass(frozen=True, slots=True)
class Reading:
    """A chunk is under way; `is_routing`: the router's choice of `chunk.layer` is awaited."""

    serial: int
    session: Session
    request: GenerationRequest
    chunk: ChunkState
    is_routing: bool


@dataclass(frozen=True, slots=True)
class Closing:
    """Both prompt streams are draining; `request` goes on to its first window, None if it was given up."""

    serial: int
    session: Session
    request: GenerationRequest | None


@dataclass(frozen=True, slots=True)
class Windowing:
    """The window in flight, or sampled last, feeds `token_id` to the cell behind the session's."""

    serial: int
    session: Session
    request: GenerationRequest
    token_id: int


State = Idle | Reading | Closing | Windowing


class Machine:
    """The transition table, over a fixed recipe. Holds no state of its own."""

    def __init__(self, recipe: Recipe, places: Addresses) -> None:
        plan = recipe.plan
        self.recipe, self.plan, self.places = recipe, plan, places
        self.resident = resident_blobs(plan)

    def step(self, state: State, event: ServingEvent) -> tuple[State, Orders]:
        """Raises AssertionError for an event that is illegal in `state`; nothing has changed then."""
        match state, event:
            case Idle(), Began(request):
                return self._begin(state, request)
            case Reading(is_routing=True), Routed(experts):
                return self._experts(state, experts)
            case Reading(is_routing=False), Arrived():
                return self._next_chunk(state)
            case Closing(request=None), Arrived():
                return Idle(state.serial, state.session), Orders()
            case Closing(request=GenerationRequest() as request), Arrived():
                return self._first_window(state.serial, state.session, request)
            case Windowing(), Continued(token_id):
                fed = state.session.grown(state.token_id)
                return self._window(replace(state, session=fed, token_id=token_id), (), ())
            case Windowing(), Ended():
                return Idle(state.serial, state.session.grown(state.token_id)), Orders()
            case (Reading(), Ended()):
                return self._close(state.serial, state.session, None)
            case (Closing(), Ended()):  # drained already: what was awaited has been reached
                return Idle(state.serial, state.session), Orders()
            case ((Reading() | Closing() | Windowing()), Broke()):
                return self._close(state.serial, state.session, None, (*PROMPT_STREAMS, Stream.VERIFIER))
        raise AssertionError(f"{type(event).__name__} is illegal in {type(state).__name__}")

    def _begin(self, state: Idle, request: GenerationRequest) -> tuple[State, Orders]:
        assert len(request.prompt_ids) + request.max_tokens <= self.plan.options.context_tokens
        session = state.session.kept(state.session.read_from(request.prompt_ids))
        if len(session.ids) == len(request.prompt_ids) - 1:
            return self._first_window(state.serial, session, request)
        return self._open_chunk(state.serial, session, request, Ring(len(self.plan.prompt.ring)))

    def _open_chunk(
        self, serial: int, session: Session, request: GenerationRequest, ring: Ring
    ) -> tuple[State, Orders]:
        """The next chunk of the prompt, from where the session ends."""
        start = len(session.ids)
        rows = min(self.plan.prompt.chunk_tokens, len(request.prompt_ids) - 1 - start)
        chunk = open_chunk(self.recipe, frozenset(self.resident), start=start, rows=rows, ring=ring)
        lane, staging = prompt_lane(self.plan), self.plan.staging
        chunk, copies = run_ahead(self.plan, chunk)
        ids = request.prompt_ids[chunk.start : chunk.start + chunk.rows]
        tokens = staging.prompt_tokens.part(offset_bytes=0, size_bytes=len(ids) * INT32_BYTES)
        uploads = (
            Upload(staging.prompt_header, pack_header(chunk.start)),
            Upload(tokens, struct.pack(f"<{len(ids)}i", *ids)),
        )
        commands: tuple[Command, ...] = (
            *copies,
            Copy(
                lane.stream,
                (
                    CopyPair(staging.prompt_header, lane.whole(lane.buffers.header)),
                    CopyPair(tokens, lane.rows_of(lane.buffers.tokens, chunk.rows)),
                ),
            ),
            launch_embed(self.recipe, lane, rows=chunk.rows),
        )
        return self._layers(Reading(serial, session, request, chunk, is_routing=False), uploads, commands)

    def _layers(
        self, state: Reading, uploads: tuple[Upload, ...], commands: tuple[Command, ...]
    ) -> tuple[State, Orders]:
        """Open the chunk's next layer and end at the next point where the host must look: a router's choice, or a
        layer's end (which is where cancels are seen)."""
        chunk = state.chunk
        if chunk.layer == self.plan.inventory.num_layers:
            return self._await(replace(state, is_routing=False), uploads, commands)
        lane = prompt_lane(self.plan)
        commands += (launch_attention(self.recipe, lane, layer=chunk.layer, rows=chunk.rows),)
        if not self.recipe.is_moe(chunk.layer):
            commands += (launch_ffn(self.recipe, lane, layer=chunk.layer, rows=chunk.rows),)
            after = replace(chunk, layer=chunk.layer + 1)
            return self._await(replace(state, chunk=after, is_routing=False), uploads, commands)
        commands += (
            launch_router(self.recipe, lane, layer=chunk.layer, rows=chunk.rows),
            _counts_home(self.plan, lane),
        )
        return self._await(replace(state, is_routing=True), uploads, commands)

    def _await(
        self, state: Reading, uploads: tuple[Upload, ...], commands: tuple[Command, ...]
    ) -> tuple[State, Orders]:
        tag = f"read {state.serial}"
        commands += (Notify(Stream.PROMPT, tag),)
        return replace(state, serial=state.serial + 1), Orders(uploads, commands, (tag,))

    def _experts(self, state: Reading, experts: tuple[int, ...]) -> tuple[State, Orders]:
        chunk = state.chunk
        if is_streaming(self.plan, chunk.rows):
            experts = tuple(range(self.plan.inventory.num_experts))
        chunk, uploads, commands = read_experts(self.recipe, chunk, self.resident, self.places, experts)
        chunk = replace(chunk, layer=chunk.layer + 1)
        return self._layers(replace(state, chunk=chunk), uploads, commands)

    def _next_chunk(self, state: Reading) -> tuple[State, Orders]:
        chunk, ids = state.chunk, state.request.prompt_ids
        if chunk.layer < self.plan.inventory.num_layers:
            return self._layers(state, (), ())
        session = state.session.grown(*ids[chunk.start : chunk.start + chunk.rows])
        if len(session.ids) == len(ids) - 1:
            return self._close(state.serial, session, state.request)
        return self._open_chunk(state.serial, session, state.request, chunk.ring)

    def _close(
        self,
        serial: int,
        session: Session,
        request: GenerationRequest | None,
        streams: tuple[Stream, ...] = PROMPT_STREAMS,
    ) -> tuple[State, Orders]:
        """Drain `streams`. The verifier's stream waits for the prompt stream too: K/V is handed over."""
        notices = tuple(Notify(stream, f"{stream} drained {serial}") for stream in streams)
        handover: tuple[Command, ...] = (
            Record(Stream.PROMPT, "chunk_done"),
            Wait(Stream.VERIFIER, "chunk_done"),
        )
        tags = tuple(notice.tag for notice in notices)
        return Closing(serial + 1, session, request), Orders((), handover + notices, tags)

    def _first_window(self, serial: int, session: Session, request: GenerationRequest) -> tuple[State, Orders]:
        """Sampler inputs go up here and not when the request begins: a read that is given up then never leaves a copy
        behind that nobody waited for, while the next request writes its staging."""
        staging, verifier = self.plan.staging, self.plan.verifier
        position = len(request.prompt_ids) - 1
        assert len(session.ids) == position, (len(session.ids), position)
        token = staging.window_tokens.part(offset_bytes=0, size_bytes=INT32_BYTES)
        uploads, commands = sampler_inputs(self.plan, request)
        uploads += (
            Upload(staging.window_header, pack_header(position)),
            Upload(token, struct.pack("<i", request.prompt_ids[-1])),
        )
        target = verifier.buffers.tokens.part(offset_bytes=0, size_bytes=INT32_BYTES)
        commands += (copy_to_verifier((staging.window_header, verifier.buffers.header), (token, target)),)
        return self._window(Windowing(serial, session, request, request.prompt_ids[-1]), uploads, commands)

    def _window(
        self, state: Windowing, uploads: tuple[Upload, ...], commands: tuple[Command, ...]
    ) -> tuple[State, Orders]:
        tag = f"window {state.serial}"
        result = Access(self.plan.verifier.window.result, "verifier")
        commands += (
            GraphLaunch(Stream.VERIFIER, WINDOW_GRAPH, TABLE_VERSION),
            Copy(Stream.VERIFIER, (CopyPair(result, self.plan.staging.result),)),
            Notify(Stream.VERIFIER, tag),
        )
        return replace(state, serial=state.serial + 1), Orders(uploads, commands, (tag,))


def resident_blobs(plan: Plan) -> dict[tuple[int, int], Access]:
    """(layer, expert) -> the bytes of its blob in the expert cache."""
    return {
        (slot.layer, slot.expert): Access(
            slot.extent.part(offset_bytes=0, size_bytes=plan.inventory.blob_bytes[slot.layer]),
            "cache",
            blob_content(slot.layer, slot.expert),
        )
        for slot in plan.slots
    }


def _counts_home(plan: Plan, lane: Lane) -> Copy:
    return Copy(lane.stream, (CopyPair(lane.whole(lane.buffers.router_counts), plan.staging.router_counts),))
