"""A number for each row, and for a bag of rows in whatever order they are: with pyarrow's kernels, a batch at a time.

For finding rows that were lost, doubled or changed on their way through a file, not for keeping secrets. Equal rows
have equal numbers in every way that pyarrow may hold them (as a dictionary or not); NaN is like NaN of the same bits,
and −0.0 unlike 0.0.
"""

from __future__ import annotations

from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any

_MASK = (1 << 64) - 1
_TEXT_BYTES = 1 << 20
_FEW = 64
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse


def row_hashes(batch: Any) -> Any:
    """A 64-bit number for each row of a batch, by the names and values of its columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = _constant("row")
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        total = pc.add(total, _numbers(column, _constant(f"column {name}")))
    if isinstance(total, pa.Scalar):
        total = pa.repeat(total, batch.num_rows)
    return _mixed(total)


def bag_hash(hashes: Any) -> int:
    """What the numbers of rows add up to; those of two bags add up to that of both."""
    import pyarrow.compute as pc

    return int(pc.sum(hashes).as_py() or 0) & _MASK


def _mixed(numbers: Any) -> Any:
    """Not linear: sums of columns would be the same where values of two rows have changed places."""
    import pyarrow as pa
    import pyarrow.compute as pc

    folded = pc.bit_wise_xor(numbers, pc.shift_right(numbers, pa.scalar(32, pa.uint64())))
    return pc.multiply(folded, folded)


def _numbers(column: Any, factor: Any) -> Any:
    """An unsigned number for each value, times the factor of its column; a single one where all are the same."""
    import pyarrow.compute as pc
    import pyarrow.types as is_

    if not is_.is_dictionary(column.type):
        return pc.multiply(_plain_numbers(column), factor)
    held = column.dictionary
    small = len(held) <= _FEW and _is_text(held.type)
    values = _few_numbers(tuple(held.to_pylist()), factor) if small else pc.multiply(_plain_numbers(held), factor)
    if len(values) == 1 and not column.null_count:
        return values[0]
    found = values.take(column.indices)
    return found.fill_null(pc.multiply(_constant("null"), factor)) if found.null_count else found


@lru_cache(maxsize=4096)
def _few_numbers(values: tuple[str | bytes | None, ...], factor: Any) -> Any:
    """The texts of a small dictionary, which come again with every batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = [value.encode(errors="surrogatepass") if isinstance(value, str) else value for value in values]
    return pc.multiply(_plain_numbers(pa.array(plain, pa.binary())), factor)


def _plain_numbers(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as is_

    kind = column.type
    if is_.is_null(kind):
        return pa.repeat(_constant("null"), len(column))
    if is_.is_nested(kind) or is_.is_decimal256(kind):
        return pa.array(
            [_slow_number(repr(value).encode(errors="surrogatepass")) for value in column.to_pylist()], pa.uint64()
        )
    if is_.is_boolean(kind):
        numbers = column.cast(pa.uint64())
    elif _is_text(kind):
        numbers = _text_numbers(column.cast(pa.large_binary()))
    elif is_.is_decimal128(kind):
        numbers = _wide_numbers(column)
    else:
        plain = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        numbers = column.view(plain).cast(pa.int64()).view(pa.uint64())
    return pc.if_else(column.is_valid(), numbers, _constant("null")) if column.null_count else numbers


def _is_text(kind: Any) -> bool:
    import pyarrow.types as is_

    tests = (
        is_.is_string, is_.is_large_string, is_.is_string_view, is_.is_binary, is_.is_large_binary, is_.is_binary_view,
        is_.is_fixed_size_binary,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _wide_numbers(column: Any) -> Any:
    """Decimals, by their two halves."""
    import pyarrow as pa
    import pyarrow.compute as pc

    _, data = column.buffers()
    halves = pa.Array.from_buffers(pa.uint64(), 2 * (column.offset + len(column)), [None, data])
    pairs = pa.FixedSizeListArray.from_arrays(halves.slice(2 * column.offset), 2)
    low, high = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    return pc.add(low, pc.multiply(high, _constant("high half")))


def _text_numbers(column: Any) -> Any:
    """Polynomials of their bytes, from the running sum over all texts: no loop over values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = len(column)
    if not rows:
        return pa.array([], pa.uint64())
    _, places, data = column.buffers()
    offsets = pa.Array.from_buffers(pa.int64(), column.offset + rows + 1, [None, places]).slice(column.offset)
    first, size = offsets[0].as_py(), offsets[rows].as_py() - offsets[0].as_py()
    if size > _TEXT_BYTES and rows > 1:
        half = rows // 2
        return pa.concat_arrays([_text_numbers(column.slice(0, half)), _text_numbers(column.slice(half))])
    if size > _TEXT_BYTES:
        return pa.array([_slow_number(column[0].as_py() or b"")], pa.uint64())
    places = pc.subtract(offsets, first)
    starts, ends = places.slice(0, rows), places.slice(1)
    lengths = pc.multiply(pc.subtract(ends, starts).view(pa.uint64()), _constant("length"))
    if not size:
        return lengths
    powers, inverses, letters = _powers()
    held = pa.Array.from_buffers(pa.uint8(), first + size, [None, data]).slice(first)
    terms = pc.multiply(letters.take(held), powers.slice(0, size))
    sums = pa.concat_arrays([pa.array([0], pa.uint64()), pc.cumulative_sum(terms)])
    spans = pc.subtract(sums.take(ends), sums.take(starts))
    return pc.add(pc.multiply(spans, inverses.take(starts)), lengths)


@cache
def _powers() -> tuple[Any, Any, Any]:
    """Powers of a number and of its inverse modulo 2⁶⁴, and a number for each byte."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def powers(base: int) -> Any:
        return pc.cumulative_prod(pa.repeat(pa.scalar(base, pa.uint64()), _TEXT_BYTES), start=1)

    letters = pa.array([_slow_number(bytes([byte])) for byte in range(256)], pa.uint64())
    return powers(_BASE), powers(pow(_BASE, -1, 1 << 64)), letters


@lru_cache(maxsize=4096)
def _constant(name: str) -> Any:
    import pyarrow as pa

    return pa.scalar(_slow_number(name.encode(errors="surrogatepass")) | 1, pa.uint64())


def _slow_number(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
