"""Framing of messages between the notebook and its ranks: one byte of kind, eight of length, then the body.

Why not multiprocessing's Connection? Its recv() unpickles whatever arrives, which a grader must not do, and its
recv_bytes() blocks until a message is complete, while Watch reads the links of many ranks at once. Why not JSON lines,
as on the fork server's control socket? Bodies here are megabytes of tensors.
"""

from __future__ import annotations

import socket
import struct

HEADER = struct.Struct("!cQ")
JOB, DONE, LEAVE, WHERE, HERE, CALL, RETURN = b"J", b"D", b"L", b"W", b"H", b"C", b"R"
MOST_BYTES = 8 << 30  # of one message


def put(link: socket.socket, kind: bytes, body: bytes = b"") -> None:
    """Send one message. Raises OSError when the other side is gone."""
    link.sendall(HEADER.pack(kind, len(body)))
    if body:
        link.sendall(body)


def get(link: socket.socket, most: int = MOST_BYTES) -> tuple[bytes, bytes]:
    """Wait for one message of at most so many bytes. Raises EOFError when the other side is gone."""
    kind, size = HEADER.unpack(_exactly(link, HEADER.size))
    _check(size, most)
    return kind, bytes(_exactly(link, size))


def _check(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"a message of {size:,} bytes; at most {most:,} are taken")


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
    """Reassembles messages, each of at most `most` bytes, from the pieces in which they arrive."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self._data = bytearray()

    def add(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        """Add a piece and return the messages that it completes."""
        self._data += piece
        whole = []
        while len(self._data) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._data)
            _check(size, self.most)
            if len(self._data) < HEADER.size + size:
                break
            whole.append((kind, bytes(self._data[HEADER.size : HEADER.size + size])))
            del self._data[: HEADER.size + size]
        return whole
