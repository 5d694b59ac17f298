"""Split points for a table that is yet to be made, from a sample of what will come."""

from __future__ import annotations

from collections.abc import Sequence

from neve.errors import InvalidInput, nearest
from neve.model.dataset import SourceFormat
from neve.model.splits import KEY_TYPES, format_points
from neve.plan.ranges import even_points
from neve.services.context import Context
from neve.services.landing import check_reach, find_paths, format_of

_SQL = {"int": "int", "long": "bigint", "string": "string", "binary": "binary"}


def estimate_splits(
    context: Context, sources: Sequence[str], *, key: str, key_type: str, leaves: int, encoded: bool = False
) -> str:
    """A split file that divides the sampled keys into so many ranges, about even; fewer where too few keys differ."""
    from neve.engine.ranges import sample_files
    from neve.engine.session import fresh_session

    kind = "long" if key_type == "bigint" else key_type
    if kind not in KEY_TYPES:
        known = ("int", "bigint", "string", "binary")
        raise InvalidInput(
            f"no row key is a {key_type}", hint=nearest(key_type, known) or f"there are: {', '.join(known)}"
        )
    paths = find_paths(sources, context.catalog.files)
    for path in paths:
        check_reach(context, path)
    formats = {format_of(path, SourceFormat()) for path in paths}
    if len(formats) > 1:
        raise InvalidInput(f"the files are of several formats: {', '.join(sorted(formats))}", hint="sample one of them")
    values = sample_files(fresh_session(context.session.spark), paths, formats.pop(), key, _SQL[kind])
    if not values:
        raise InvalidInput(f"no row of the files has a {key}", hint="sample files with rows")
    return format_points(even_points(values, leaves), encoded=encoded)
