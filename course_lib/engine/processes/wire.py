"""Messages between a notebook and its ranks: one byte of kind, eight of length, then the body."""

from __future__ import annotations

import socket
import struct

HEADER = struct.Struct("!cQ")
JOB, DONE, LEAVE, WHERE, HERE, CALL, RETURN = b"J", b"D", b"L", b"W", b"H", b"C", b"R"
MOST_BYTES = 8 << 30  # of one message; whoever serves strangers sets it lower


def put(link: socket.socket, kind: bytes, body: bytes = b"") -> None:
    """Send one message. Raises OSError when the other side is gone."""
    link.sendall(HEADER.pack(kind, len(body)))
    if body:
        link.sendall(body)


def get(link: socket.socket) -> tuple[bytes, bytes]:
    """Wait for one message. Raises EOFError when the other side is gone."""
    kind, size = HEADER.unpack(_exactly(link, HEADER.size))
    _check(size)
    return kind, bytes(_exactly(link, size))


def _check(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"a message of {size:,} bytes; at most {MOST_BYTES:,} are taken")


def _exactly(link: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, have = memoryview(data), 0
    while have < size:
        got = link.recv_into(view[have:])
        if not got:
            raise EOFError
        have += got
    return data


class Inbox:
    """Bytes that arrive piece by piece; `messages` takes out those that are whole."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        """Add a piece and return the messages that it completes."""
        self._data += piece
        whole = []
        while len(self._data) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._data)
            _check(size)
            if len(self._data) < HEADER.size + size:
                break
            whole.append((kind, bytes(self._data[HEADER.size : HEADER.size + size])))
            del self._data[: HEADER.size + size]
        return whole
