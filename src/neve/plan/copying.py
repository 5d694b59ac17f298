"""Row-group copy: which files may share an output, and which files of many should.

A copy keeps row groups as they are, so files of small ones are re-encoded instead. Measured (bench/copier.py, ten
columns, zstd): a copy was 24 to 31 times as fast as pyarrow's read and write in row groups of 8 MB, 15 in 2 MB, 10 to
14 in 1 MB; but 5 to 7 in 0.5 MB and 3 to 4 in 0.25 MB, since every row group brings a footer's worth of work, to us and
to each reader ever after. Below 8 MB an output was 7 to 9 % larger than re-encoded; DuckDB read it no slower.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from neve.model.copying import CopyGroup, CopyOptions, CopyPlan, Element, FileShape, NotCopied
from neve.model.results import Reason
from neve.plan.provenance import metadata_class, writer_class

MIN_ROW_GROUP_BYTES = 1_000_000
MAX_ROW_GROUPS = 32_767
"""A row group's number is 16 bits wide in Parquet's metadata."""

MAX_FOOTER_BYTES = 50_000_000
"""Readers load a footer whole, and some refuse one of 100 MB; an output's is about as large as all its sources'."""

_LARGE_ENOUGH = 0.75
_SMALL = "small_row_groups"
_BROKEN = ("corrupt", "encrypted", "not_parquet")
_NO_OPTIONS = CopyOptions()


def can_copy(shapes: Sequence[FileShape], options: CopyOptions = _NO_OPTIONS) -> Reason | None:
    """Why these files cannot be copied into one, or None when they can. What is not known for sure is a reason."""
    for shape in shapes:
        if shape.problem is not None:
            return shape.problem
    groups, footers = sum(len(shape.row_groups) for shape in shapes), sum(shape.footer_bytes for shape in shapes)
    if groups > MAX_ROW_GROUPS:
        return Reason(code="too_many_row_groups", detail=f"{groups} row groups; a file holds {MAX_ROW_GROUPS}")
    if footers > MAX_FOOTER_BYTES:
        return Reason(code="footer_too_large", detail=f"a footer of {footers} bytes; {MAX_FOOTER_BYTES} are too many")
    differences = (_difference(shapes[0], other, options) for other in shapes[1:])
    return next((reason for reason in differences if reason is not None), None)


def _difference(one: FileShape, other: FileShape, options: CopyOptions) -> Reason | None:
    if copy_class(one, options) == copy_class(other, options):
        return None
    names = f"{one.path} and {other.path}"
    ours, theirs = _compared(one, options), _compared(other, options)
    if ours != theirs:
        return Reason(code="schema_differs", detail=f"{names}: {_first_difference(ours, theirs)}")
    if _orders(one, options) != _orders(other, options):
        return Reason(code="orders_differ", detail=f"{names} compare their statistics in different ways")
    if writer_class(one) != writer_class(other):
        return Reason(code="writer_differs", detail=f"{names} were written by {one.created_by} and {other.created_by}")
    unlike = set(metadata_class(one, options)) ^ set(metadata_class(other, options))
    return Reason(
        code="metadata_differs",
        detail=f"{names}: their metadata differs in {', '.join(sorted({k for k, _ in unlike}))}",
    )


def copy_class(shape: FileShape, options: CopyOptions = _NO_OPTIONS) -> Hashable:
    """Files of one class may share an output; others may not."""
    return _compared(shape, options), _orders(shape, options), writer_class(shape), metadata_class(shape, options)


def _compared(shape: FileShape, options: CopyOptions) -> tuple[Element, ...]:
    """The schema without the columns that extra ones take the place of: these come last, whatever they were."""
    if not options.without:
        return shape.elements
    return tuple(element for element in shape.elements if element.field_id not in options.without)


def _orders(shape: FileShape, options: CopyOptions) -> tuple[str, ...] | None:
    if shape.orders is None or not options.without:
        return shape.orders
    return tuple(
        order
        for order, leaf in zip(shape.orders, shape.leaves, strict=True)
        if leaf.element.field_id not in options.without
    )


def _first_difference(ours: Sequence[Element], theirs: Sequence[Element]) -> str:
    for one, other in zip(ours, theirs, strict=False):
        if one.name != other.name:
            return f"column {one.name} stands where the other has {other.name}"
        if one != other:
            return f"column {one.name} is {one.kind}, and {other.kind}"
    longer = max(ours, theirs, key=len)
    return f"column {longer[min(len(ours), len(theirs))].name} is in one of them only"


def plan_copy(
    shapes: Iterable[FileShape],
    *,
    target_bytes: int,
    min_row_group_bytes: int = MIN_ROW_GROUP_BYTES,
    options: CopyOptions = _NO_OPTIONS,
    codec: str | None = None,
) -> CopyPlan:
    """Which files become one by copy, which must be re-encoded to be of use, and which stay; all with a reason.

    Files keep the order they come in. With a `codec`, files packed otherwise are re-encoded. What a copy makes is left
    alone by the next plan, or goes into a larger output, so repeated plans come to an end.
    """
    left: list[NotCopied] = []
    small: list[tuple[FileShape, Reason | None]] = []
    for shape in shapes:
        if stays := _reason_to_leave(shape, target_bytes):
            left.append(_not_copied(shape, stays))
        else:
            small.append((shape, _reason_to_reencode(shape, min_row_group_bytes, codec)))
    company = sum(reason is not None for _, reason in small) > 1
    reencode: list[NotCopied] = []
    classes: dict[Hashable, list[FileShape]] = {}
    for shape, reason in small:
        if reason is not None and (company or not _is_one_small_group(shape, reason)):
            reencode.append(_not_copied(shape, reason))
        else:
            classes.setdefault(copy_class(shape, options), []).append(shape)
    bins = [held for alike in classes.values() for held in _packed(alike, target_bytes)]
    left += [_not_copied(held.shapes[0], _ALONE) for held in bins if len(held.shapes) == 1]
    return CopyPlan(
        groups=tuple(held.group() for held in bins if len(held.shapes) > 1),
        reencode=tuple(reencode),
        left=tuple(left),
    )


_ALONE = Reason(code="alone", detail="no other file goes with it")


def _reason_to_leave(shape: FileShape, target_bytes: int) -> Reason | None:
    if shape.problem is not None and shape.problem.code in _BROKEN:
        return shape.problem
    if shape.bytes >= _LARGE_ENOUGH * target_bytes:
        return Reason(code="large_enough", detail=f"{shape.bytes} bytes of {target_bytes} wanted")
    return None


def _reason_to_reencode(shape: FileShape, min_row_group_bytes: int, codec: str | None) -> Reason | None:
    if shape.problem is not None:
        return shape.problem
    others = sorted({found for codecs in shape.codecs for found in codecs} - {codec})
    if codec is not None and others:
        return Reason(code="codec", detail=f"packed with {', '.join(others)}, not {codec}")
    held = [group for group in shape.row_groups if group.rows]
    if held and shape.data_bytes < min_row_group_bytes * len(held):
        average = shape.data_bytes // len(held)
        return Reason(code=_SMALL, detail=f"{average} bytes a row group; {min_row_group_bytes} are of use")
    return None


def _is_one_small_group(shape: FileShape, reason: Reason) -> bool:
    """Nothing to re-encode it with, and nothing gained by re-encoding it alone; a copy takes it along."""
    return reason.code == _SMALL and len(shape.row_groups) == 1


def _not_copied(shape: FileShape, reason: Reason) -> NotCopied:
    return NotCopied(path=shape.path, bytes=shape.bytes, reason=reason)


@dataclass
class _Bin:
    """Files on their way into one output."""

    shapes: list[FileShape] = field(default_factory=list)
    bytes: int = 0
    row_groups: int = 0
    footers: int = 0

    def fits(self, shape: FileShape, target_bytes: int) -> bool:
        return (
            self.bytes + shape.bytes <= target_bytes
            and self.row_groups + len(shape.row_groups) <= MAX_ROW_GROUPS
            and self.footers + shape.footer_bytes <= MAX_FOOTER_BYTES
        )

    def add(self, shape: FileShape) -> None:
        self.shapes.append(shape)
        self.bytes += shape.bytes
        self.row_groups += len(shape.row_groups)
        self.footers += shape.footer_bytes

    def group(self) -> CopyGroup:
        return CopyGroup(
            files=tuple(shape.path for shape in self.shapes),
            rows=sum(shape.rows for shape in self.shapes),
            bytes=self.bytes,
            row_groups=self.row_groups,
        )


_OPEN_BINS = 10


def _packed(shapes: Sequence[FileShape], target_bytes: int) -> Iterator[_Bin]:
    """First fit among the last few bins, so that files which come together mostly stay together."""
    bins: list[_Bin] = []
    for shape in shapes:
        found = next((held for held in bins[-_OPEN_BINS:] if held.fits(shape, target_bytes)), None)
        if found is None:
            bins.append(found := _Bin())
        found.add(shape)
    return iter(bins)
