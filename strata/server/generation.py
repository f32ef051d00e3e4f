"""The two generation routes: body -> order -> ticket -> reply, whole or streamed.

Decides the order of things: everything is validated before the engine hears of the request, and before a stream's
headers go out. Whatever happens to the client, its ticket is cancelled unless the engine was done with it.
"""

from functools import partial
from typing import Protocol

import trio
from quart import Response, request
from quart.wrappers import Request

from strata.core.errors import RequestError
from strata.engine.ports import Ticket
from strata.engine.updates import Broken
from strata.server.edge import Edge
from strata.server.exchange import at_end, close_connection_of, receive_body, release_body
from strata.server.feed import UpdateFeed
from strata.server.ports import ServedModel, TextPort
from strata.server.schemas_prompt import Order, parse_chat_order, parse_completion_order
from strata.server.schemas_reply import Frames, encode_json, error_of
from strata.server.sse import HEADERS, EventStream


class ParseOrder(Protocol):
    def __call__(
        self, body: bytes, *, text: TextPort, model: ServedModel, request_id: str, fresh_seed: int
    ) -> Order: ...


async def answer_chat(app: Edge) -> Response:
    return await _answer(app, parse_chat_order, is_chat=True)


async def answer_completion(app: Edge) -> Response:
    return await _answer(app, parse_completion_order, is_chat=False)


async def _answer(app: Edge, parse: ParseOrder, *, is_chat: bool) -> Response:
    started = trio.current_time()
    _refuse_while_draining(app)
    request_id = ("chatcmpl-" if is_chat else "cmpl-") + app.surroundings.new_id()
    order = await _receive_order(app, parse, request_id)
    _refuse_while_draining(app)
    ticket = app.engine.submit(order.request)
    feed = UpdateFeed(ticket, app.drain)
    at_end(request, partial(_cancel_unless_ended, feed, ticket))
    frames = Frames(request_id, app.surroundings.unix_s(), app.model.model_id, is_chat, order.is_usage_wanted)
    if order.is_stream:
        return _stream(app, request, feed, frames, started=started)
    return await _collect(feed, frames)


async def _receive_order(app: Edge, parse: ParseOrder, request_id: str) -> Order:
    """Not a part of `_answer`, so that nothing holds the body while the reply is generated."""
    body = await receive_body(request)
    seed = app.surroundings.new_seed()
    work = partial(parse, body, text=app.text, model=app.model, request_id=request_id, fresh_seed=seed)
    order = await app.surroundings.run_text(work)
    release_body(request)
    return order


async def _collect(feed: UpdateFeed, frames: Frames) -> Response:
    async with feed:
        text, final = await feed.receive_final()
    if isinstance(final, Broken):
        raise error_of(final)
    return Response(encode_json(frames.whole(text, final)), content_type="application/json")


def _stream(app: Edge, asked: Request, feed: UpdateFeed, frames: Frames, *, started: float) -> Response:
    stream = EventStream(
        feed,
        frames,
        comment_gap_s=app.limits.keep_alive_comment_s,
        on_first_text=lambda: app.metrics.observe_first_text(trio.current_time() - started),
        on_broken=close_connection_of(asked),
    )
    response = Response(stream, headers=HEADERS)
    response.timeout = None
    return response


def _refuse_while_draining(app: Edge) -> None:
    if app.drain.is_draining:
        raise RequestError("the server is shutting down; send this to another one", status=503, code="shutting_down")


def _cancel_unless_ended(feed: UpdateFeed, ticket: Ticket) -> None:
    if not feed.has_ended:
        ticket.cancel()
