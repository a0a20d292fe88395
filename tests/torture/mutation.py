"""Changes to the content of a file, such as a failing disk, a broken transfer or an attacker makes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random


def flip_bit(data: bytes, random: Random) -> bytes:
    """Flip one bit."""
    place = random.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]


def truncate(data: bytes, random: Random) -> bytes:
    """Cut off the end."""
    return data[: random.randrange(len(data))]


def append(data: bytes, random: Random) -> bytes:
    """Add bytes at the end."""
    return data + random.randbytes(random.randint(1, 64))


def overwrite(data: bytes, random: Random) -> bytes:
    """Replace a block by random bytes, zeros or text."""
    place, length = random.randrange(len(data)), random.randint(1, 32)
    block = random.choice([random.randbytes(length), bytes(length), b"-1e999,NaN,[[[{{{\x1b[2J"])
    return data[:place] + block + data[place + len(block) :]


def swap(data: bytes, random: Random) -> bytes:
    """Exchange two blocks."""
    first, second = sorted(random.randrange(len(data)) for _ in range(2))
    length = min(16, second - first, len(data) - second)
    one, other = data[first : first + length], data[second : second + length]
    return data[:first] + other + data[first + length : second] + one + data[second + length :]


def repeat(data: bytes, random: Random) -> bytes:
    """Repeat a block."""
    place = random.randrange(len(data))
    return data[:place] + data[place : place + random.randint(1, 64)] * random.randint(1, 50) + data[place:]


MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (flip_bit, truncate, append, overwrite, swap, repeat)


def mutated(data: bytes, random: Random) -> tuple[str, bytes]:
    """Apply one to three changes; return their names and the result."""
    names = []
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        change = random.choice(MUTATIONS)
        names.append(change.__name__)
        data = change(data, random) or b"\x00"
    return " ".join(names), data
