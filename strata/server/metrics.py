"""What /metrics shows: the engine's counters as they stand when asked, and the HTTP edge's own.

A private registry, so that two servers in one process (tests) do not share counts. Decides names and buckets. Labels
come from a fixed set: a path that no route has counts as "other".
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.metrics import disable_created_metrics
from prometheus_client.registry import Collector

from strata.engine.ports import Engine

ROUTES = frozenset(
    ("/v1/chat/completions", "/v1/completions", "/v1/models", "/health", "/ready", "/metrics", "/debug/card"),
)
MODEL_ROUTE = "/v1/models/{id}"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# The date at which each counter was made says nothing that process metrics do not, and reads the machine's clock.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

# field of EngineStatistics, metric, help
_GAUGES = (
    ("num_queued", "strata_requests_queued", "Requests that wait for the engine"),
    ("num_running", "strata_requests_running", "Requests the engine works on, 0 or 1"),
    ("seconds_since_progress", "strata_seconds_since_progress", "Since the running request last made progress"),
    ("chunk_tokens", "strata_chunk_tokens", "Planned prompt chunk"),
    ("ring_slots", "strata_ring_slots", "Planned ring"),
    ("num_parked", "strata_parked_conversations", "Conversations in host memory"),
    ("held_bytes", "strata_parked_bytes", "Bytes that they take"),
    ("num_checkpoints", "strata_checkpoints", "Recurrent states of the live session in host memory"),
)
_COUNTERS = (
    ("num_finished", "strata_requests_finished", "Replies that were completed"),
    ("num_cancelled", "strata_requests_cancelled", "Requests dropped because their client left"),
    ("num_broken", "strata_requests_broken", "Requests the engine gave up"),
    ("prompt_tokens", "strata_prompt_tokens", "Prompt tokens that went through the model; reused ones do not count"),
    ("predicted_tokens", "strata_predicted_tokens", "Tokens generated"),
    ("expert_reads_hit", "strata_expert_reads_hit", "Expert reads served from VRAM"),
    ("expert_reads_missed", "strata_expert_reads_missed", "Expert reads served from the pack or the ring"),
    ("window_reads_hit", "strata_window_expert_reads_hit", "Expert reads of decode windows served from VRAM"),
    ("window_reads_missed", "strata_window_expert_reads_missed", "Expert reads of decode windows served from the pack"),
    (
        "staged_reads",
        "strata_window_expert_reads_staged",
        "Of these, experts copied to the card for the window, since they are not pinned: --resident-budget-gib",
    ),
    ("num_swaps", "strata_cache_swaps", "Blobs of the expert cache that were exchanged: --cache-swaps"),
    ("swapped_bytes", "strata_cache_swap_bytes", "Bytes copied to the card for that"),
    ("link_bytes", "strata_link_bytes", "Bytes moved to the device"),
    ("ring_entries", "strata_ring_entries", "Blobs that went through the ring"),
    ("num_loans", "strata_loans", "Times that cache slots were lent to a read"),
    ("lent_bytes", "strata_lent_bytes", "Bytes given to reads, summed over the loans"),
    ("slab_bytes", "strata_slab_bytes", "Of what was lent, bytes for programs of a chunk to work in"),
    ("refilled_bytes", "strata_refilled_bytes", "Bytes copied back into lent slots"),
    (
        "num_rooms",
        "strata_rooms",
        "Times that the drafter's block was given to a read, as ring slots where it has a ring",
    ),
    ("room_bytes", "strata_room_bytes", "Bytes copied back into the drafter's block"),
    ("num_segment_loans", "strata_segment_loans", "Times that segments were moved behind the arena, at start included"),
    ("restored_bytes", "strata_restored_bytes", "Bytes copied back into regions whose segments were away"),
    ("reclaim_s", "strata_reclaim_seconds", "Seconds that loans took to come home, summed over the requests"),
    (
        "num_verified",
        "strata_lent_pieces_verified",
        "Pieces that came home and were held against the pack: --verify-lent",
    ),
    ("num_drafts", "strata_drafts", "Tokens that were drafted"),
    ("num_drafts_accepted", "strata_drafts_accepted", "Of them, those that the model then said"),
    ("num_hits", "strata_parked_hits", "Requests that found their longest prefix in host memory"),
    ("num_parkings", "strata_conversations_parked", "Times that a conversation was copied to host memory"),
    ("num_restores", "strata_conversations_restored", "Times that a conversation came back to the card"),
    ("num_evictions", "strata_conversations_evicted", "Parked conversations that had to go for another one"),
    ("num_given_up", "strata_conversations_given_up", "Conversations given up for want of room in host memory"),
    ("parked_bytes", "strata_conversation_bytes_parked", "Bytes of conversations copied to host memory"),
    ("unparked_bytes", "strata_conversation_bytes_restored", "Bytes of conversations copied back to the card"),
    ("num_saves", "strata_checkpoints_kept", "Times that a read left a recurrent state in host memory"),
    ("num_resumes", "strata_checkpoints_used", "Times that a prompt went on from one"),
    ("num_checkpoint_evictions", "strata_checkpoints_evicted", "Recurrent states that had to go for another one"),
    ("num_launches", "strata_launches", "Programs and graphs launched"),
    (
        "num_maps_while_serving",
        "strata_maps_while_serving",
        "Segments mapped since the server was ready, but for those a loan moved",
    ),
)


class EngineCollector(Collector):
    """Reads `engine.statistics()` once a scrape, so all its figures are of one moment."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        statistics = self._engine.statistics()
        gauges = [GaugeMetricFamily(name, text, getattr(statistics, field)) for field, name, text in _GAUGES]
        counters = [CounterMetricFamily(name, text, getattr(statistics, field)) for field, name, text in _COUNTERS]
        return [*gauges, *counters]


class Metrics:
    """Counters and histograms of one server."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(EngineCollector(engine))
        self._requests = Counter(
            "strata_http_requests", "HTTP requests by route and status", ("route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "strata_http_request_seconds",
            "From the request's headers to the end of the reply",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._refused_connections = Counter(
            "strata_connections_refused", "Connections beyond max_connections", registry=self.registry
        )
        self._first_text = Histogram(
            "strata_time_to_first_text_seconds",
            "From the request's headers to the first text of a stream",
            buckets=_SECONDS,
            registry=self.registry,
        )

    def count_request(self, path: str, status: str, *, seconds: float) -> None:
        """`status` is "disconnected" where the client left before a status was sent."""
        route = path if path in ROUTES else MODEL_ROUTE if path.startswith("/v1/models/") else "other"
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def count_refused_connection(self) -> None:
        self._refused_connections.inc()

    def observe_first_text(self, seconds: float) -> None:
        self._first_text.observe(seconds)

    def render(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self.registry)
