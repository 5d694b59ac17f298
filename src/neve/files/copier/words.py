"""The numbers that Parquet's format (parquet.thrift, format 2.13) gives its fields, and the names of its enumerations.

`KNOWN` lists every field of the structures that hold places in the file. A file with another field there is not
copied: the field might be a place too.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from neve.files.copier.thrift import FLAT, Nest

MAGIC: Final = b"PAR1"
ENCRYPTED_MAGIC: Final = b"PARE"
TAIL: Final = 8
"""The length of the footer, and the magic, end every file."""


class File(IntEnum):
    VERSION = 1
    SCHEMA = 2
    ROWS = 3
    ROW_GROUPS = 4
    METADATA = 5
    CREATED_BY = 6
    COLUMN_ORDERS = 7
    ENCRYPTION = 8
    SIGNING_KEY = 9


class Node(IntEnum):
    TYPE = 1
    LENGTH = 2
    REPETITION = 3
    NAME = 4
    CHILDREN = 5
    CONVERTED = 6
    SCALE = 7
    PRECISION = 8
    FIELD_ID = 9
    LOGICAL = 10


class Group(IntEnum):
    COLUMNS = 1
    UNCOMPRESSED = 2
    ROWS = 3
    SORTING = 4
    FILE_OFFSET = 5
    COMPRESSED = 6
    ORDINAL = 7


class Chunk(IntEnum):
    FILE_PATH = 1
    FILE_OFFSET = 2
    COLUMN = 3
    OFFSET_INDEX = 4
    OFFSET_INDEX_LENGTH = 5
    COLUMN_INDEX = 6
    COLUMN_INDEX_LENGTH = 7
    CRYPTO = 8
    ENCRYPTED_COLUMN = 9


class Column(IntEnum):
    TYPE = 1
    ENCODINGS = 2
    PATH = 3
    CODEC = 4
    VALUES = 5
    UNCOMPRESSED = 6
    COMPRESSED = 7
    METADATA = 8
    DATA_PAGE = 9
    INDEX_PAGE = 10
    DICTIONARY_PAGE = 11
    STATISTICS = 12
    ENCODING_STATS = 13
    BLOOM = 14
    BLOOM_LENGTH = 15
    SIZE_STATISTICS = 16
    GEOSPATIAL = 17


class Stats(IntEnum):
    NULLS = 3
    MAX = 5
    MIN = 6
    MAX_EXACT = 7
    MIN_EXACT = 8
    NANS = 9


class Offsets(IntEnum):
    PAGES = 1
    UNENCODED = 2


class Page(IntEnum):
    OFFSET = 1
    SIZE = 2
    FIRST_ROW = 3


class Pair(IntEnum):
    KEY = 1
    VALUE = 2


KNOWN: Final = {words: frozenset(int(word) for word in words) for words in (File, Group, Chunk, Column, Offsets, Page)}
COLUMN_INDEX_FIELDS: Final = frozenset(range(1, 9))

COLUMN_NEST: Nest = {Column.ENCODINGS: FLAT, Column.PATH: FLAT, Column.STATISTICS: FLAT}
GROUP_NEST: Nest = {Group.COLUMNS: {Chunk.COLUMN: COLUMN_NEST}}
FILE_NEST: Nest = {File.ROW_GROUPS: GROUP_NEST, File.METADATA: FLAT, File.COLUMN_ORDERS: FLAT}
OFFSETS_NEST: Nest = {Offsets.PAGES: FLAT}

PHYSICAL: Final = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
REPETITIONS: Final = ("required", "optional", "repeated")
CODECS: Final = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
