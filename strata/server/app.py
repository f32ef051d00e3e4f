"""The application: routes, authentication, and every failure as an OpenAI error object.

Decides which route answers what, and what is open without a key (/health, /ready). Knows no socket: `serving.py` owns
those. Everything it serves is injected; it never imports a model or a device.
"""

import hmac
import logging
from collections.abc import Mapping
from functools import partial

from quart import Response, request
from werkzeug.exceptions import HTTPException

from strata.core.errors import RequestError
from strata.engine.ports import Engine
from strata.server.edge import Edge
from strata.server.exchange import Exchange, RefusedWebsocket
from strata.server.generation import answer_chat, answer_completion
from strata.server.metrics import CONTENT_TYPE, Metrics
from strata.server.ports import ServedModel, ServerLimits, TextPort
from strata.server.schemas_reply import RETRY_AFTER_S, Json, encode_json, render_error, render_model
from strata.server.schemas_sampling import check_model
from strata.server.surroundings import Surroundings, real_surroundings

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset(("/health", "/ready"))


def create_app(
    engine: Engine,
    text: TextPort,
    model: ServedModel,
    limits: ServerLimits,
    *,
    metrics: Metrics | None = None,
    surroundings: Surroundings | None = None,
) -> Edge:
    """`text` is called where `surroundings` says: by default in worker threads, at most `limits.num_text_threads` at
    once.

    Every view and hook is a coroutine function: quart runs the others in threads."""
    if surroundings is None:
        surroundings = real_surroundings(num_text_threads=limits.num_text_threads)
    app = Edge(engine, text, model, limits, metrics or Metrics(engine), surroundings)
    app.asgi_http_class = Exchange  # type: ignore[assignment]  # it is made for this application only
    app.asgi_websocket_class = RefusedWebsocket  # type: ignore[assignment]
    app.before_request(partial(check_key, encode_key(limits.api_key)))
    app.after_request(order_methods)
    app.add_url_rule("/v1/chat/completions", "chat", partial(answer_chat, app), methods=["POST"])
    app.add_url_rule("/v1/completions", "completion", partial(answer_completion, app), methods=["POST"])
    app.add_url_rule("/v1/models", "models", partial(list_models, app), methods=["GET"])
    app.add_url_rule("/v1/models/<path:model_id>", "model", partial(show_model, app), methods=["GET"])
    app.add_url_rule("/health", "health", show_health, methods=["GET"])
    app.add_url_rule("/ready", "ready", partial(show_ready, app), methods=["GET"])
    app.add_url_rule("/metrics", "metrics", partial(show_metrics, app), methods=["GET"])
    app.register_error_handler(RequestError, reply_error)
    app.register_error_handler(HTTPException, reply_http_error)
    app.register_error_handler(Exception, reply_internal_error)
    return app


async def check_key(api_key: bytes | None) -> None:
    """Raises 401 unless no key is set, the path is open, or the request brings the key as a bearer token."""
    if api_key is None or request.path in OPEN_PATHS:
        return
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    # Latin-1 gives the bytes as they came. Only blanks are stripped: str.strip() takes bytes of UTF-8 letters too.
    given = token.strip(" \t").encode("latin-1", "replace")
    # An empty key matches nothing: every request could bring it.
    if scheme.lower() != "bearer" or not api_key or not hmac.compare_digest(given, api_key):
        message = "no valid API key; send the header `Authorization: Bearer KEY` with the server's --api-key"
        raise RequestError(message, status=401, code="invalid_api_key")


async def order_methods(response: Response) -> Response:
    """The framework lists a path's methods out of a set, in another order in every process."""
    if "Allow" in response.headers:
        response.headers["Allow"] = ", ".join(sorted(response.headers["Allow"].split(", ")))
    return response


def encode_key(api_key: str | None) -> bytes | None:
    """The bytes a client must send. A key of the environment may hold bytes that are no UTF-8, as lone surrogates.
    Blanks around it are dropped, for a header cannot carry them."""
    if api_key is None:
        return None
    try:
        key = api_key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        key = api_key.encode("utf-8", "surrogatepass")
    return key.strip(b" \t\r\n")


async def list_models(app: Edge) -> Response:
    return reply({"object": "list", "data": [render_model(app.model)]})


async def show_model(app: Edge, model_id: str) -> Response:
    check_model(model_id, app.model)
    return reply(render_model(app.model))


async def show_health() -> Response:
    """The process lives and its loop turns; says nothing of the engine, see /ready."""
    return reply({"status": "ok"})


async def show_metrics(app: Edge) -> Response:
    return Response(app.metrics.render(), content_type=CONTENT_TYPE)


async def show_ready(app: Edge) -> Response:
    """503 while the server drains, or while a running request has made no progress for too long."""
    if app.drain.is_draining:
        return reply({"status": "shutting_down"}, status=503)
    statistics = app.engine.statistics()
    idle_s, deadline_s = statistics.seconds_since_progress, app.limits.progress_deadline_s
    if statistics.num_running and idle_s > deadline_s:
        return reply({"status": "stuck", "seconds_since_progress": idle_s, "deadline_s": deadline_s}, status=503)
    return reply({"status": "ready", "queued": statistics.num_queued, "running": statistics.num_running})


def reply(value: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    response = Response(encode_json(value), status=status, content_type="application/json")
    response.headers.extend(dict(headers or {}))
    return response


async def reply_error(error: RequestError) -> Response:
    headers = {503: {"Retry-After": str(RETRY_AFTER_S)}, 401: {"WWW-Authenticate": "Bearer"}}
    return reply(render_error(error), status=error.status, headers=headers.get(error.status))


async def reply_http_error(error: HTTPException) -> Response:
    """What the framework refused: no such path or method, a body too long or too late."""
    status = error.code or 500
    reasons = {
        404: f"there is no path {request.path}",
        405: f"{request.path} does not answer {request.method}",
        408: f"the request body did not arrive within {request.body_timeout} s",
        413: f"the request body is longer than max_body_bytes={request.max_content_length}; send a shorter one",
    }
    codes = {404: "unknown_url", 405: "method_not_allowed", 408: "body_timeout", 413: "request_too_large"}
    message = reasons.get(status, error.description or error.name)
    response = reply(render_error(RequestError(message, status=status, code=codes.get(status))), status=status)
    allow = dict(error.get_headers()).get("Allow")
    if allow:
        response.headers["Allow"] = allow
    return response


async def reply_internal_error(error: Exception) -> Response:
    """The request's edge: our own mistake costs one request, is logged whole, and tells the client nothing of it."""
    log.error("request failed: %s %s", request.method, request.path, exc_info=error)
    return await reply_error(RequestError("the server failed; see its log", status=500, code="internal_error"))
