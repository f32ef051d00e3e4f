"""Clients that come and go: each of many mixed requests is answered as if it were alone, and everything that was lent
comes home. For a server on any device."""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from strata.commands.child_server import ChildServer

NUM_CLIENTS = 6
REQUEST_TIMEOUT_S = 60.0
LOOKS = 10_000


@dataclass(frozen=True)
class Mixed:
    """`num_requests` requests of one of `lengths` prompt tokens for one of `replies` tokens, a third of which are left
    after the first piece of their stream; every `alone_every`-th is asked alone too, before the others. `vocabulary`:
    token ids below it."""

    num_requests: int
    lengths: Sequence[int]
    replies: Sequence[int] = (1, 8, 24)
    vocabulary: int = 300
    alone_every: int = 4

    def body_of(self, number: int) -> dict[str, Any]:
        draw = random.Random(number)
        ids = [draw.randrange(self.vocabulary) for _ in range(draw.choice(self.lengths))]
        return {"prompt": ids, "max_tokens": draw.choice(self.replies), "temperature": 0.7, "seed": number}

    def leaves_early(self, number: int) -> bool:
        return number % 3 == 1


@dataclass
class Answered:
    """By number of the request: `alone`, and `together` with others; `failed`: what went wrong otherwise. `card` is
    /debug/card at the end, `seconds` what each part took."""

    alone: dict[int, str] = field(default_factory=dict)
    together: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)


def serve_mixed_clients(server: ChildServer, mixed: Mixed) -> Answered:
    answered, began = Answered(), time.monotonic()
    with httpx.Client(base_url=server.url, timeout=REQUEST_TIMEOUT_S) as client:
        for number in range(0, mixed.num_requests, mixed.alone_every):
            answered.alone[number] = _ask(client, mixed.body_of(number))
    answered.seconds["alone"] = time.monotonic() - began
    threads = [
        threading.Thread(target=_run_client, args=(server.url, mixed, start, answered)) for start in range(NUM_CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answered.seconds["together"] = time.monotonic() - began - answered.seconds["alone"]
    answered.card = _card_at_rest(server.url)
    return answered


def _card_at_rest(url: str) -> dict[str, Any]:
    """Once what clients left is closed too."""
    with httpx.Client(base_url=url, timeout=REQUEST_TIMEOUT_S) as client:
        for _ in range(LOOKS):
            card: dict[str, Any] = client.get("/debug/card").json()
            if not card["statistics"]["num_running"] and not card["statistics"]["num_queued"]:
                return card
    raise AssertionError(f"something still runs: {card['statistics']}")


def check_answers(answered: Answered, mixed: Mixed) -> None:
    asked = [number for number in range(mixed.num_requests) if not mixed.leaves_early(number)]
    assert answered.failed == {}
    assert sorted(answered.together) == asked
    both = [number for number in answered.alone if number in answered.together]
    assert len(both) >= mixed.num_requests // (2 * mixed.alone_every)
    assert {n: answered.together[n] for n in both} == {n: answered.alone[n] for n in both}


def check_all_is_home(answered: Answered, *, least_loans: int) -> None:
    """By the books and by the counters: what the cache lent was copied back, and nothing belongs to a read."""
    statistics = answered.card["statistics"]
    assert statistics["num_loans"] >= least_loans and statistics["num_maps_while_serving"] == 0
    assert 0 < statistics["refilled_bytes"] <= statistics["lent_bytes"]
    assert not [row for row in answered.card["rows"] if row["owner"] == "prompt"], "something is still lent"


def _run_client(url: str, mixed: Mixed, start: int, answered: Answered) -> None:
    """Each NUM_CLIENTS-th request: asked for whole, or left after the first piece of its stream."""
    with httpx.Client(base_url=url, timeout=REQUEST_TIMEOUT_S) as client:
        for number in range(start, mixed.num_requests, NUM_CLIENTS):
            try:
                if mixed.leaves_early(number):
                    _leave(client, mixed.body_of(number))
                else:
                    answered.together[number] = _ask(client, mixed.body_of(number))
            except (httpx.HTTPError, AssertionError) as error:
                answered.failed[number] = repr(error)


def _ask(client: httpx.Client, body: dict[str, Any]) -> str:
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["text"]
    return text


def _leave(client: httpx.Client, body: dict[str, Any]) -> None:
    with client.stream("POST", "/v1/completions", json=body | {"stream": True}) as answer:
        next(answer.iter_lines(), None)
