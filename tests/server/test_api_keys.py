"""API keys of odd bytes, over real sockets: a test client would encode the header in its own way."""

import os

import pytest

from tests.server.site import serving


async def status_with(wire, authorization):
    head = b"GET /v1/models HTTP/1.1\r\nHost: t\r\nAuthorization: %s\r\n\r\n" % authorization
    await wire.stream.send_all(head)
    received = b""
    while not received.endswith(b"}"):
        received += await wire.stream.receive_some(65536)
    return int(received.split()[1])


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        (" secret-key\t\n", b"secret-key"),
        ("clé", "clé".encode()),
        ("voilà", "voilà".encode()),  # its last byte, 0xA0, is a blank to str.strip()
        (os.fsdecode(b"key-\xff\xfe"), b"key-\xff\xfe"),
        ("key-\ud800", b"key-\xed\xa0\x80"),
        ("key-\ud800\udcff", b"key-\xed\xa0\x80\xed\xb3\xbf"),
    ],
    ids=["blanks", "letters", "last-byte-a0", "no-utf-8", "surrogate", "surrogates"],
)
async def test_a_key_of_any_bytes_is_matched_and_only_it(key, sent, caplog):
    async with serving(api_key=key) as site, await site.connect() as wire:
        tried = (sent, sent[:-1], sent + b"x", b"?" * len(sent), b"\xff\xfe\xfd", b"")
        assert [await status_with(wire, b"Bearer " + given) for given in tried] == [200, 401, 401, 401, 401, 401]
    assert caplog.text == ""


@pytest.mark.parametrize("key", ["", " ", "\t\n"])
@pytest.mark.parametrize("authorization", [b"Bearer", b"Bearer ", b"Bearer  \t", b""])
async def test_an_empty_key_opens_nothing(key, authorization):
    async with serving(api_key=key) as site, await site.connect() as wire:
        assert await status_with(wire, authorization) == 401
