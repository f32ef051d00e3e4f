"""What swaps of the expert cache bring, by their rule alone: windows read experts by a law that changes with the topic,
and the share of reads that the cache serves is counted. No card, no bytes, no time but that of the rule itself.

    python -m bench.cache_policy [--windows 4096] [--share 0.4] [--skew 1.0] [--seed 0]

48 layers of 128 experts, eight of them a layer and token, as qwen3moe 30B has. In each layer the chance of the k-th
expert falls as k**-skew, in an order of its own that is drawn anew for every topic of 1,024 windows.
"""

import argparse
import time
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.memory.residency import Residency
from strata.core.memory.shapes import Slot

LAYERS, EXPERTS, USED, BLOB_BYTES = 48, 128, 8, 2_654_208
TOPIC_WINDOWS = 1024
LIMITS = (0, 1, 4, 16)


@dataclass(frozen=True)
class Outcome:
    """Shares of reads that the cache served, of all windows and of the last half of each topic; swaps in all; seconds
    of processor time that one choice took at most."""

    hit_rate: float
    settled_rate: float
    num_swaps: int
    choice_s: float


def inventory() -> ModelInventory:
    return ModelInventory(
        architecture="qwen3moe",
        num_layers=LAYERS,
        hidden_size=2048,
        num_heads=32,
        num_kv_heads=4,
        head_dim=128,
        vocab_size=151_936,
        context_tokens=4096,
        num_experts=EXPERTS,
        num_experts_used=USED,
        weights=(),
        blob_bytes=(BLOB_BYTES,) * LAYERS,
    )


def even(share: float) -> Residency:
    """Expert by expert over all layers, as a plan fills a cache."""
    pairs = [(layer, expert) for expert in range(EXPERTS) for layer in range(LAYERS)][: int(share * LAYERS * EXPERTS)]
    slots = (Slot(layer, expert, Extent(i * BLOB_BYTES, BLOB_BYTES)) for i, (layer, expert) in enumerate(pairs))
    return Residency(tuple(slots))


def choose(rng: Random, order: list[int], sums: list[float]) -> set[int]:
    chosen: set[int] = set()
    while len(chosen) < USED:
        chosen.update(rng.choices(order, cum_weights=sums, k=USED - len(chosen)))
    return chosen


def run(*, num_swaps: int, num_windows: int, share: float, skew: float, seed: int, swap_windows: int = 16) -> Outcome:
    rng, model, cache = Random(seed), inventory(), even(share)
    sums = list(accumulate((k + 1) ** -skew for k in range(EXPERTS)))
    hits = settled = exchanged = 0
    choice_s = 0.0
    held = {slot.layer * EXPERTS + slot.expert for slot in cache.slots}
    reads = [0] * (LAYERS * EXPERTS)
    for window in range(num_windows):
        if window % TOPIC_WINDOWS == 0:
            orders = [rng.sample(range(EXPERTS), EXPERTS) for _ in range(LAYERS)]
        for layer, order in enumerate(orders):
            for expert in choose(rng, order, sums):
                pair = layer * EXPERTS + expert
                reads[pair] += 1
                hits += pair in held
                settled += pair in held and window % TOPIC_WINDOWS >= TOPIC_WINDOWS // 2
        is_due = (window + 1) % swap_windows == 0
        began = time.process_time()
        cache = cache.after_window(tuple(reads) if is_due else ())
        if is_due:
            reads = [0] * len(reads)
            if num_swaps:
                cache = cache.exchanged(model, most=num_swaps)
                exchanged += len(cache.moving)
                cache = cache.landed()
                choice_s = max(choice_s, time.process_time() - began)
                held = {slot.layer * EXPERTS + slot.expert for slot in cache.slots}
    num_reads = num_windows * LAYERS * USED
    return Outcome(hits / num_reads, 2 * settled / num_reads, exchanged, choice_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=4 * TOPIC_WINDOWS)
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--skew", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| --cache-swaps | hit rate | second half of topics | blobs exchanged a window | one choice at most |")
    print("|---|---|---|---|---|")
    for num_swaps in LIMITS:
        found = run(
            num_swaps=num_swaps,
            num_windows=options.windows,
            share=options.share,
            skew=options.skew,
            seed=options.seed,
        )
        rate = found.num_swaps / options.windows
        print(
            f"| {num_swaps} | {found.hit_rate:.3f} | {found.settled_rate:.3f} | {rate:.2f} | "
            f"{1e3 * found.choice_s:.1f} ms |"
        )


if __name__ == "__main__":
    main()
