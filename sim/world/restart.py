"""The next server on the same host pack, with other options (`sim.world.geometry.OTHER_OPTIONS`); where blobs are
exchanged it starts warm."""

from sim.world.card import Card, make_card
from sim.world.errors import WorldFault
from sim.world.geometry import with_other_options


def next_card(before: Card, pick: int) -> Card | None:
    """Ready, with everything new but the pack; None where options number `pick` have no plan. Failures to come meet it
    once it is ready, and counts of pairs go on. Raises WorldFault where it would look elsewhere in the pack."""
    geometry = with_other_options(before.geometry, pick)
    if geometry is None:
        return None
    heat, has_pairs = before.runner.snapshot().heat if geometry.num_swaps else (), before.device.pairs is not None
    card = make_card(geometry, is_counting_pairs=has_pairs, pack=before.payload.pack, heat=heat)
    assert isinstance(card, Card), card
    if card.plan.pack != before.plan.pack:
        raise WorldFault(f"another start arranges the pack in another way: {geometry}")
    card.device.faults, card.device.history = before.device.faults, before.device.history
    if card.device.pairs is not None and before.device.pairs is not None:
        card.device.pairs.counts += before.device.pairs.counts
    before.device.close()
    return card
