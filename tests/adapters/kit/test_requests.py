"""What goes into requests."""

import json
from email import message_from_bytes
from email.policy import HTTP

from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import File, Request
from wakebus.adapters.kit import requests


@given(st.text())
def test_nested_json_size(text: str) -> None:
    """The bytes of a text as JSON in JSON, and a text's parts never measure more than it."""
    outer = requests.compact_json({"a": requests.compact_json({"b": text})})
    empty = requests.compact_json({"a": requests.compact_json({"b": ""})})
    assert requests.nested_json_size(text) == len(outer.encode(errors="surrogatepass")) - len(empty)
    assert json.loads(json.loads(outer)["a"])["b"] == text


def test_post_json() -> None:
    """Compact JSON in UTF-8, and named headers."""
    request = requests.post_json("https://x/", {"a": "中"}, x_token="t")
    assert request.body == '{"a":"中"}'.encode()
    assert request.headers == {"Content-Type": "application/json; charset=utf-8", "x-token": "t"}


def parsed(request: Request) -> list[tuple[str, str | None, str, bytes]]:
    """Return name, file name, type and bytes of each field, as the standard library reads it."""
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    found = []
    for part in message_from_bytes(head + request.body, policy=HTTP).iter_parts():
        assert part.get_content_disposition() == "form-data"
        name = part.get_param("name", header="content-disposition")
        kind = part.get_content_type() if "Content-Type" in part else ""
        data = part.get_payload(decode=True)
        assert isinstance(name, str) and isinstance(data, bytes)
        found.append((name, part.get_filename(), kind, data))
    return found


def test_post_form() -> None:
    """Fields in order, then files; bytes as they are, also those of lines; headers by name."""
    file = File("a b.png", b"\x00\xff\r\n--x\r\n", "image/png")
    request = requests.post_form("https://x/", {"chat": "7", "t": "中"}, {"f": file}, x_token="t")
    assert parsed(request) == [
        ("chat", None, "", b"7"),
        ("t", None, "", "中".encode()),
        ("f", "a b.png", "image/png", file.data),
    ]
    assert (request.method, request.headers["x-token"]) == ("POST", "t")


def test_names_in_a_form() -> None:
    """A name breaks out of nothing: quotes and lines as browsers write them, UTF-8 as it is."""
    body = requests.post_form("https://x/", {}, {"f": File('"; x="\r\n报.txt', b"")}).body
    assert 'filename="%22; x=%22%0D%0A报.txt"\r\n'.encode() in body


@given(st.binary(max_size=40), st.text(max_size=10), st.text(max_size=10))
@settings(max_examples=40)
def test_a_boundary_of_its_own(data: bytes, value: str, name: str) -> None:
    """The same arguments, an equal request; other bytes, another boundary, which none holds."""
    value = value.encode(errors="replace").decode()
    name = name.encode(errors="replace").decode()

    def made(data: bytes) -> Request:
        return requests.post_form("https://x/", {"a": value}, {"f": File(name, data)})

    assert made(data) == made(data) != made(data + b"x")
    mark = made(data).headers["Content-Type"].partition("boundary=")[2]
    assert made(data).body.count(mark.encode()) == 3
    assert made(data).headers != made(data + b"x").headers


def test_sizes() -> None:
    """An emoji counts as two, as in JavaScript; bytes as UTF-8, and as JSON with its escapes."""
    assert (
        requests.utf16_length("a中"),
        requests.utf16_length("😀"),
        requests.utf16_length(""),
    ) == (2, 2, 0)
    assert (requests.utf8_length("a中"), requests.utf8_length("😀"), requests.utf8_length("")) == (
        4,
        4,
        0,
    )
    assert (requests.json_size('a"中\n'), requests.json_size("")) == (10, 2)
