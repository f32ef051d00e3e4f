"""The payload with real bytes: aliases, poison, protection, and nothing left behind."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from sim import errors
from sim.bytes import POISON, BytesPayload, positional_digest
from sim.device import SimDevice, describe_twin
from sim.pages import PageRange
from strata.core.commands import Access, Fill, Launch, Map, Notify, Stream, Transfer, Unmap
from strata.core.errors import ConfigError, DeviceError
from strata.core.events import Failed
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription

PAGE = resource.getpagesize()
NAN_BYTES = bytes([POISON])


def describe(num_segments: int = 4) -> DeviceDescription:
    return describe_twin(arena_bytes=num_segments * PAGE, segment_bytes=PAGE, pack_bytes=2 * PAGE, staging_bytes=PAGE)


@pytest.fixture
def payload():
    made = BytesPayload(describe())
    yield made
    made.close()


def content(payload: BytesPayload, extent: Extent) -> bytes:
    return bytes(payload.tensor(extent).tolist())


def test_a_segment_takes_its_bytes_to_another_address(payload: BytesPayload) -> None:
    payload.map(2, Extent(0, PAGE))
    payload.fill(Extent(5, 10), 7)
    payload.unmap(Extent(0, PAGE))
    payload.map(2, Extent(3 * PAGE, PAGE))
    assert content(payload, Extent(3 * PAGE, 20)) == bytes(5) + b"\x07" * 10 + bytes(5)


def test_two_addresses_of_one_segment_are_an_alias(payload: BytesPayload) -> None:
    payload.map(1, Extent(0, PAGE))
    payload.map(1, Extent(PAGE, PAGE))
    payload.fill(Extent(PAGE + 1, 1), 9)
    assert content(payload, Extent(0, 3)) == b"\x00\x09\x00"


def test_a_view_keeps_its_address_and_shows_what_is_mapped_there_now(payload: BytesPayload) -> None:
    payload.map(0, Extent(0, PAGE))
    payload.fill(Extent(0, PAGE), 1)
    view = payload.tensor(Extent(0, 4))
    payload.unmap(Extent(0, PAGE))
    payload.map(3, Extent(0, PAGE))
    assert view.data_ptr() == payload.tensor(Extent(0, 4)).data_ptr()
    assert view.tolist() == [0, 0, 0, 0]


def test_neighbouring_addresses_show_segments_in_any_order(payload: BytesPayload) -> None:
    payload.map(3, Extent(0, PAGE))
    payload.map(0, Extent(PAGE, PAGE))
    payload.fill(Extent(PAGE - 2, 4), 5)
    payload.map(0, Extent(2 * PAGE, PAGE))
    assert content(payload, Extent(2 * PAGE, 3)) == b"\x05\x05\x00"


def make_card(num_segments: int = 4) -> SimDevice:
    description = describe(num_segments)
    card = SimDevice(description, {"keep": keep}, BytesPayload(description))
    card.seal()
    return card


def keep(memory, args) -> None:
    """Append what the bytes at the first extent are, as the program sees them."""
    extent, found = args
    found.append(bytes(memory.write(extent).tolist()))


def look(card: SimDevice, extent: Extent, owner: str) -> bytes:
    found: list[bytes] = []
    card.submit([Launch(Stream.PROMPT, "keep", (extent, found), (), (Access(extent, owner),))])
    return found[0]


def test_fresh_and_transferred_bytes_are_poison_that_is_nan() -> None:
    card = make_card()
    card.submit([Map(0, Extent(0, PAGE)), Transfer(Extent(0, PAGE), "", "kv")])
    assert look(card, Extent(0, PAGE), "kv") == NAN_BYTES * PAGE
    assert torch.frombuffer(bytearray(NAN_BYTES * 4), dtype=torch.float32).isnan().all()
    assert torch.frombuffer(bytearray(NAN_BYTES * 4), dtype=torch.float16).isnan().all()
    card.close()


def test_a_transfer_poisons_exactly_what_it_passes_on() -> None:
    card = make_card()
    card.submit([Map(0, Extent(0, PAGE)), Transfer(Extent(0, 64), "", "kv"), Transfer(Extent(10, 3), "kv", "kv 2")])
    card.submit(
        [Fill(Stream.PROMPT, Access(Extent(0, 10), "kv"), 0), Fill(Stream.PROMPT, Access(Extent(13, 9), "kv"), 0)]
    )
    card.submit([Fill(Stream.PROMPT, Access(Extent(10, 3), "kv 2"), 0)])
    card.submit([Notify(Stream.PROMPT, "done")])
    card.completions()
    card.submit([Transfer(Extent(10, 3), "kv 2", "kv")])
    assert look(card, Extent(8, 7), "kv") == bytes(2) + NAN_BYTES * 3 + bytes(2)
    card.close()


def test_a_transfer_of_half_mapped_bytes_touches_no_hole() -> None:
    card = make_card()
    card.submit([Map(0, Extent(0, PAGE)), Map(2, Extent(2 * PAGE, PAGE)), Transfer(Extent(0, 4 * PAGE), "", "kv")])
    assert look(card, Extent(2 * PAGE, 8), "kv") == NAN_BYTES * 8
    card.close()


def test_remapping_away_and_home_leaves_poison_not_the_old_bytes() -> None:
    card = make_card()
    segment, away = Extent(0, PAGE), Extent(PAGE, PAGE)
    card.submit(
        [Map(0, segment), Transfer(segment, "", "kv"), Unmap(segment), Map(0, away), Transfer(away, "", "ring")]
    )
    assert look(card, Extent(PAGE, 8), "ring") == NAN_BYTES * 8
    card.close()


def test_a_fresh_mapping_under_its_old_owner_is_poison_too() -> None:
    card = make_card()
    segment = Extent(0, PAGE)
    card.submit([Map(0, segment), Transfer(segment, "", "kv"), Fill(Stream.PROMPT, Access(segment, "kv"), 1)])
    card.submit([Notify(Stream.PROMPT, "done")])
    card.completions()
    card.submit([Unmap(segment), Map(0, segment)])
    assert look(card, Extent(PAGE - 8, 8), "kv") == NAN_BYTES * 8
    card.close()


def test_a_failed_fill_leaves_poison() -> None:
    target = Access(Extent(4, 4), "kv")
    fail = Fill(Stream.PROMPT, target, 7)
    description = describe()
    faults = {3: Failed("bus error", fail)}
    programs, payload = {"keep": keep}, BytesPayload(description)
    card = SimDevice(description, programs, payload, faults=lambda index, command: faults.get(index))
    card.submit([Map(0, Extent(0, PAGE)), Transfer(Extent(0, PAGE), "", "kv")])
    card.submit([Fill(Stream.PROMPT, Access(Extent(0, 9), "kv"), 0), fail])
    assert look(card, Extent(0, 9), "kv") == bytes(4) + NAN_BYTES * 4 + bytes(1)
    card.close()


def test_the_sealed_pack_is_protected_by_the_page_table() -> None:
    payload = BytesPayload(describe())
    address = payload.tensor(HostExtent(HostSpace.PACK, 0, 1)).data_ptr()
    assert _permissions(address).startswith("rw")
    payload.seal()
    assert _permissions(address).startswith("r-")
    payload.close()


def test_a_hole_in_the_arena_has_no_access_at_all(payload: BytesPayload) -> None:
    payload.map(0, Extent(0, PAGE))
    base = payload.tensor(Extent(0, 1)).data_ptr()
    assert _permissions(base).startswith("rw")
    assert _permissions(base + PAGE).startswith("--")
    payload.unmap(Extent(0, PAGE))
    assert _permissions(base).startswith("--")


def _permissions(address: int) -> str:
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, permissions = line.split()[:2]
            start, end = (int(bound, 16) for bound in span.split("-"))
            if start <= address < end:
                return permissions
    return "gone"


def _num_mappings() -> int:
    with open("/proc/self/maps") as lines:
        return sum("strata-twin" in line for line in lines)


def _num_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_thousand_remaps_leak_neither_files_nor_mappings() -> None:
    before = _num_files()
    card = make_card()
    for turn in range(1000):
        segment = Extent((turn % 4) * PAGE, PAGE)
        card.submit([Map(turn % 3, segment), Unmap(segment)])
    assert (_num_files(), _num_mappings()) == (before + 1, 0)
    assert card.statistics().num_maps == 1000
    assert len(card.card_map()) == 1
    card.close()
    assert _num_files() == before


def test_close_gives_back_every_file_and_every_address() -> None:
    before = _num_files()
    for _ in range(50):
        card = make_card()
        card.submit([Map(0, Extent(0, PAGE)), Map(1, Extent(PAGE, PAGE))])
        address = card._payload.tensor(Extent(0, 1)).data_ptr()
        assert _permissions(address) == "rw-s"
        card.close()
        card.close()
    assert (_num_files(), _num_mappings()) == (before, 0)


def test_memory_is_taken_as_it_is_written_not_as_it_is_reserved() -> None:
    description = describe_twin(arena_bytes=1 << 36, segment_bytes=1 << 26, pack_bytes=1 << 36, staging_bytes=PAGE)
    payload = BytesPayload(description)
    before = _resident_pages()
    payload.map(5, Extent(1 << 26, 1 << 26))
    payload.fill(Extent((1 << 26) + 100, 10), 1)
    assert _resident_pages() - before < 1024
    payload.close()


def _resident_pages() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


@contextmanager
def limited(what: int, limit: int) -> Iterator[None]:
    """This process may have at most `limit` of `what` (a number of the resource module), until the end."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


HUGE = 1 << 40
BEYOND = (1 << 64) + PAGE
"""libc takes it for one page."""


@pytest.mark.parametrize("size_bytes", [HUGE, BEYOND, 1 << 63, 1 << 70])
@pytest.mark.parametrize(
    ("name", "option", "remedy"),
    [
        ("vram", "arena_bytes", "lower --vram"),
        ("pack", "pack_bytes", "use a smaller model, or"),
        ("staging", "staging_bytes", "use a smaller model, or"),
    ],
)
def test_memory_that_the_host_does_not_have_is_refused_in_one_line(
    name: str, option: str, remedy: str, size_bytes: int
) -> None:
    sizes = {"arena_bytes": PAGE, "pack_bytes": PAGE, "staging_bytes": PAGE, option: size_bytes}
    before = _num_files()
    # Half of what is asked for, so that the system says no; the larger ones never get to it.
    with limited(resource.RLIMIT_AS, HUGE // 2), pytest.raises(ConfigError) as caught:
        BytesPayload(describe_twin(segment_bytes=PAGE, **sizes))
    (reason,) = caught.value.reasons
    assert reason.startswith(f"twin refused: {name}={size_bytes:,} B of this host's memory: ")
    assert remedy in reason
    assert "\n" not in reason
    assert ("Cannot allocate memory" in reason) == (size_bytes == HUGE)
    assert _num_files() == before
    assert caught.value.__cause__ is not None


def test_a_memory_file_that_is_too_large_is_refused_and_nothing_is_left() -> None:
    before = _num_files(), _address_bytes()
    for _ in range(20):
        with limited(resource.RLIMIT_FSIZE, PAGE), pytest.raises(ConfigError, match=r"vram=.* File too large; lower"):
            BytesPayload(describe_twin(arena_bytes=1 << 32, segment_bytes=PAGE, pack_bytes=1 << 32, staging_bytes=PAGE))
    assert _num_files() == before[0]
    assert _address_bytes() - before[1] < 1 << 32


def _address_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * PAGE


def test_a_range_that_the_system_refuses_is_an_error_of_the_device() -> None:
    pages = PageRange(PAGE, is_reserved=True)
    with pytest.raises(DeviceError, match=f"^mmap of {PAGE:,} B failed: Bad file descriptor$"):
        pages.show(0, size_bytes=PAGE, file=-1, file_offset_bytes=0)
    pages.close()


def test_segments_smaller_than_a_page_are_refused() -> None:
    description = describe_twin(arena_bytes=4096, segment_bytes=512, pack_bytes=0, staging_bytes=0)
    with pytest.raises(ValueError, match="segment_bytes=512 must be a multiple of the page size"):
        BytesPayload(description)


def test_an_arena_that_is_not_whole_segments_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a multiple of segment_bytes"):
        describe_twin(arena_bytes=100, segment_bytes=64, pack_bytes=0, staging_bytes=0)


def test_host_memory_of_no_bytes_works() -> None:
    payload = BytesPayload(describe_twin(arena_bytes=PAGE, segment_bytes=PAGE, pack_bytes=0, staging_bytes=0))
    payload.seal()
    assert payload.host(HostExtent(HostSpace.STAGING, 0, 0)).nbytes == 0
    assert payload.tensor(HostExtent(HostSpace.PACK, 0, 0)).numel() == 0
    payload.close()


def test_the_digest_sees_swapped_words_and_trailing_zeros() -> None:
    data = torch.arange(64, dtype=torch.uint8)
    swapped = torch.cat([data[8:16], data[:8], data[16:]])
    longer = torch.cat([data, torch.zeros(3, dtype=torch.uint8)])
    assert len({positional_digest(t) for t in (data, swapped, longer, data.flip(0))}) == 4


def test_a_write_into_the_sealed_pack_never_gets_to_the_bytes() -> None:
    card = make_card()
    view = card.host(HostExtent(HostSpace.PACK, 0, 8))
    with pytest.raises(TypeError):
        view[0] = 1
    card.close()


def test_bytes_passed_on_in_place_are_what_they_were() -> None:
    card = make_card()
    card.submit([Map(0, Extent(0, PAGE)), Transfer(Extent(0, PAGE), "", "kv")])
    card.submit([Fill(Stream.PROMPT, Access(Extent(0, 9), "kv"), 5), Notify(Stream.PROMPT, "over")])
    card.completions()
    card.submit([Transfer(Extent(2, 3), "kv", "ring", in_place=True), Transfer(Extent(7, 2), "kv", "ring")])
    assert look(card, Extent(0, 2), "kv") == b"\5" * 2
    assert look(card, Extent(2, 3), "ring") == b"\5" * 3
    assert content(card._payload, Extent(7, 2)) == NAN_BYTES * 2
    card.close()


def test_addresses_behind_the_arena_show_segments_and_cost_no_memory() -> None:
    sizes = {"arena_bytes": 2 * PAGE, "segment_bytes": PAGE, "pack_bytes": 0, "staging_bytes": 0}
    description = describe_twin(**sizes, behind_bytes=PAGE)
    assert (description.range_bytes, description.arena_bytes) == (3 * PAGE, 2 * PAGE)
    payload = BytesPayload(description)
    assert os.fstat(payload._memory_file).st_size == 2 * PAGE
    payload.map(1, Extent(2 * PAGE, PAGE))
    payload.fill(Extent(2 * PAGE, 4), 3)
    assert content(payload, Extent(2 * PAGE, 4)) == b"\3" * 4
    payload.close()
    for behind_bytes in (PAGE // 2, -PAGE):
        with pytest.raises(ValueError, match=f"behind_bytes={behind_bytes} must be a multiple of segment_bytes"):
            describe_twin(**sizes, behind_bytes=behind_bytes)


def test_a_program_gets_no_view_that_leaves_its_extent() -> None:
    card = make_card()
    card.submit([Map(0, Extent(0, PAGE)), Transfer(Extent(0, PAGE), "", "kv")])
    launch = Launch(Stream.PROMPT, "keep", (Extent(PAGE - 4, 8), []), (), (Access(Extent(0, PAGE), "kv"),))
    with pytest.raises(errors.UndeclaredAccess):
        card.submit([launch])
    card.close()
