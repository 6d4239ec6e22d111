"""FNV-1a, the hash behind table paths and the numbers of types and properties."""

from __future__ import annotations


def fnv1a_64(text: str) -> int:
    """FNV-1a in 64 bits over the UTF-8 bytes of ``text``.

    >>> f"{fnv1a_64('foobar'):016x}"
    '85944171f73967e8'
    """
    return _fnv1a(text, 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1)


def fnv1a_32(text: str) -> int:
    """FNV-1a in 32 bits over the UTF-8 bytes of ``text``.

    >>> f"{fnv1a_32('foobar'):08x}"
    'bf9cf968'
    """
    return _fnv1a(text, 2166136261, 16777619, 2**32 - 1)


def _fnv1a(text: str, offset: int, prime: int, mask: int) -> int:
    value = offset
    for byte in text.encode():
        value = ((value ^ byte) * prime) & mask
    return value
