"""PROTOCOL.md section 2: frames, against a real broker."""

import json
from typing import Any

import pytest
import zmq

from fakes.broker import Broker
from fakes.peer import Peer, posting
from wakebus.broker.protocol import wire


def answer(peer: Peer, *frames: bytes) -> list[Any]:
    """Send frames; return the answer as [verb, sequence, code]."""
    peer.raw(*frames)
    version, verb, sequence, payload = peer.raw_answer()
    assert version == 1
    return [verb, sequence, payload.get("code")]


def test_a_request_as_the_page_shows_it(peer: Peer) -> None:
    """PROTOCOL-2.1: one frame, a list of four values; the answer has the same shape."""
    peer.raw(b'[1,"list",17,{}]')
    assert peer.raw_answer()[:3] == [1, "ok", 17]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"hello",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"null",
        b"{}",
        b"[]",
        b'[1,"list",5]',
        b'[1,"list",5,{},{}]',
        b'[1,"list",5,[]]',
        b"[1,5,5,{}]",
        b'[1,"' + b"v" * 33 + b'",5,{}]',
        b'[1,"list",-1,{}]',
        b'[1,"list",true,{}]',
        b'[1,"list",0.0,{}]',
        b'[1,"list",9007199254740992,{}]',
    ],
    ids=lambda data: repr(data[:24]),
)
def test_garbage_is_answered_and_harms_nobody(peer: Peer, data: bytes) -> None:
    """PROTOCOL-2.5, PROTOCOL-2.3: `bad_frame`, sequence 0; the connection goes on."""
    assert answer(peer, data) == ["err", 0, "bad_frame"]
    assert "endpoints" in peer.ask("list")


@pytest.mark.parametrize(
    "value",
    [b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"', b'"\xed\xa0\x80"', b'"\xff"'],
)
def test_what_is_no_strict_json(peer: Peer, value: bytes) -> None:
    """PROTOCOL-2.2: NaN, infinity, lone surrogates (literal, escaped), no UTF-8."""
    data = json.dumps([1, "send", 5, posting("nobody", "TEXT")]).encode()
    assert answer(peer, data.replace(b'"TEXT"', value)) == ["err", 0, "bad_frame"]
    assert "endpoints" in peer.ask("list")


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_beyond_a_double(peer: Peer, sign: str) -> None:
    """PROTOCOL-2.2: wherever it stands; as text, or one that a double holds, it is carried."""
    for body in ('{"v":[%s]}', '{"v":{"w":%s}}'):
        data = json.dumps([1, "send", 5, posting("nobody", "TEXT")]).encode()
        body_ = (body % (sign + "9" * 400)).encode()
        assert answer(peer, data.replace(b'"TEXT"', body_)) == ["err", 0, "bad_frame"]
    large = {"text": "9" * 400, "v": int(sign + "1" + "0" * 308)}
    peer.register(f"big{sign}")
    peer.send(f"big{sign}", sender=f"big{sign}", body=large)
    assert peer.take()["message"]["body"] == large


@pytest.mark.parametrize("frames", [(b"", b'[1,"list",5,{}]'), (b'[1,"list",5,{}]',) * 3])
def test_a_message_of_several_frames(peer: Peer, frames: tuple[bytes, ...]) -> None:
    """PROTOCOL-2.1: one frame only; a REQ socket's empty first frame is told so."""
    assert answer(peer, *frames) == ["err", 0, "bad_frame"]
    assert "endpoints" in peer.ask("list")


@pytest.mark.parametrize("version", ["0", "2", "true", '"1"', "null", "1.0"])
def test_another_version(peer: Peer, version: str) -> None:
    """PROTOCOL-2.5: `bad_version`, with the sequence and what is served."""
    peer.raw(f'[{version},"list",7,{{}}]'.encode())
    _, verb, sequence, payload = peer.raw_answer()
    assert (verb, sequence, payload["code"]) == ("err", 7, "bad_version")
    assert (payload["min"], payload["max"]) == (wire.VERSION, wire.VERSION)


def test_another_version_of_another_shape(peer: Peer) -> None:
    """PROTOCOL-2.5: where no sequence can be read it is 0."""
    assert answer(peer, b'[9,{"all":"new"}]') == ["err", 0, "bad_version"]


def test_the_largest_sequence(peer: Peer) -> None:
    """PROTOCOL-2.3: it comes back exactly."""
    peer.raw(f'[1,"list",{wire.MAX_SEQUENCE},{{}}]'.encode())
    assert peer.raw_answer()[1:3] == ["ok", wire.MAX_SEQUENCE]


def test_a_frame_of_ten_megabytes(peer: Peer) -> None:
    """PROTOCOL-2.4: `too_big`; the connection goes on."""
    data = json.dumps([1, "send", 5, posting("nobody", "x" * 10_000_000)]).encode()
    assert answer(peer, data) == ["err", 0, "too_big"]
    assert "endpoints" in peer.ask("list")


def test_beyond_the_wall_the_connection_ends(
    shared_broker: Broker, peer: Peer, other: Peer
) -> None:
    """PROTOCOL-2.4: 17 MiB are not even read; others notice nothing."""
    monitor = peer.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    peer.raw(b"x" * (17 << 20))
    assert monitor.poll(15_000), "the connection stands"
    peer.socket.disable_monitor()
    monitor.close(0)
    assert "endpoints" in other.ask("list")
    assert shared_broker.alive
