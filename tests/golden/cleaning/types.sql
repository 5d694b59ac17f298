-- columns
--   a: string
--   b: boolean
--   c: int
--   d: bigint
--   e: decimal(12,3)
--   f: float
--   g: date not null
--   h: timestamp
--   i: timestamp_ntz
--   j: binary
--   k: decimal(38,0)
-- rules
--   'cast:b'
--   'cast:c'
--   'cast:d'
--   'cast:e'
--   'cast:f'
--   'cast:g'
--   'cast:h'
--   'cast:i'
--   'cast:k'
--   'not_null:g'
-- order by
-- unused
-- missing
WITH inputs AS (
  SELECT
    `a` AS `_neve_of_a`,
    `b` AS `_neve_of_b`,
    `c` AS `_neve_of_c`,
    `d` AS `_neve_of_d`,
    `e` AS `_neve_of_e`,
    `f` AS `_neve_of_f`,
    `g` AS `_neve_of_g`,
    `h` AS `_neve_of_h`,
    `i` AS `_neve_of_i`,
    `j` AS `_neve_of_j`,
    `k` AS `_neve_of_k`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    CAST(`a` AS STRING) AS `_neve_in_a`,
    CAST(`b` AS STRING) AS `_neve_in_b`,
    CAST(`c` AS STRING) AS `_neve_in_c`,
    CAST(`d` AS STRING) AS `_neve_in_d`,
    CAST(`e` AS STRING) AS `_neve_in_e`,
    CAST(`f` AS STRING) AS `_neve_in_f`,
    CAST(`g` AS STRING) AS `_neve_in_g`,
    CAST(`h` AS STRING) AS `_neve_in_h`,
    CAST(`i` AS STRING) AS `_neve_in_i`,
    CAST(CAST(`j` AS STRING) AS BINARY) AS `_neve_in_j`,
    CAST(`k` AS STRING) AS `_neve_in_k`
  FROM source
), tried AS (
  SELECT
    *,
    TRY_CAST(`_neve_in_f` AS FLOAT) AS `_neve_try_f`,
    TRY_CAST(`_neve_in_g` AS DATE) AS `_neve_try_g`
  FROM inputs
), typed AS (
  SELECT
    *,
    TRY_CAST(`_neve_in_b` AS BOOLEAN) AS `_neve_as_b`,
    COALESCE(
      TRY_CAST(`_neve_in_c` AS INT),
      TRY_CAST(IF(
        `_neve_in_c` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_c`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_c`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_c` AS DECIMAL(38, 0)),
        NULL
      ) AS INT)
    ) AS `_neve_as_c`,
    COALESCE(
      TRY_CAST(`_neve_in_d` AS BIGINT),
      TRY_CAST(IF(
        `_neve_in_d` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_d`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_d`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_d` AS DECIMAL(38, 0)),
        NULL
      ) AS BIGINT)
    ) AS `_neve_as_d`,
    IF(
      `_neve_in_e` RLIKE '^\\s*[+-]?([0-9]*(\\.[0-9]{0,3}0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
      OR LENGTH(
        REGEXP_EXTRACT(`_neve_in_e`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
      ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_e`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 3,
      TRY_CAST(`_neve_in_e` AS DECIMAL(12, 3)),
      NULL
    ) AS `_neve_as_e`,
    IF(
      (
        (
          (
            SUBSTRING(CAST(`_neve_in_f` AS BINARY), -1, 1) BETWEEN X'2e' AND X'39'
            AND NOT (
              CONTAINS(`_neve_in_f`, 'x') OR CONTAINS(`_neve_in_f`, 'X')
            )
          )
          OR `_neve_in_f` RLIKE '^\\s*[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?\\s*$'
        )
        AND ABS(`_neve_try_f`) < CAST('Infinity' AS FLOAT)
      )
      OR `_neve_in_f` RLIKE '(?i)^\\s*[+-]?inf(inity)?\\s*$',
      `_neve_try_f`,
      NULL
    ) AS `_neve_as_f`,
    IF(
      (
        OCTET_LENGTH(`_neve_in_g`) = 10
        AND SUBSTRING(CAST(`_neve_in_g` AS BINARY), 5, 1) BETWEEN X'2d' AND X'2d'
        AND SUBSTRING(CAST(`_neve_in_g` AS BINARY), 8, 1) BETWEEN X'2d' AND X'2d'
        AND SUBSTRING(CAST(`_neve_in_g` AS BINARY), 10, 1) BETWEEN X'30' AND X'39'
        AND `_neve_try_g` >= CAST('0001-01-01' AS DATE)
      )
      OR `_neve_in_g` RLIKE '^\\s*(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]00:00(:00(\\.0+)?)?Z?)?\\s*$',
      `_neve_try_g`,
      NULL
    ) AS `_neve_as_g`,
    IF(
      `_neve_in_h` RLIKE '^\\s*(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,6}0*)?( ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?)?)?\\s*$',
      TRY_CAST(`_neve_in_h` AS TIMESTAMP),
      NULL
    ) AS `_neve_as_h`,
    IF(
      `_neve_in_i` RLIKE '^\\s*(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,6}0*)?)?)?\\s*$',
      TRY_CAST(`_neve_in_i` AS TIMESTAMP_NTZ),
      NULL
    ) AS `_neve_as_i`,
    IF(
      `_neve_in_k` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
      OR LENGTH(
        REGEXP_EXTRACT(`_neve_in_k`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
      ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_k`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
      TRY_CAST(`_neve_in_k` AS DECIMAL(38, 0)),
      NULL
    ) AS `_neve_as_k`
  FROM tried
), judged AS (
  SELECT
    *,
    IF(
      (
        `_neve_as_b` IS NULL AND TRIM(`_neve_in_b`) <> ''
      )
      OR (
        `_neve_as_c` IS NULL AND TRIM(`_neve_in_c`) <> ''
      )
      OR (
        `_neve_as_d` IS NULL AND TRIM(`_neve_in_d`) <> ''
      )
      OR (
        `_neve_as_e` IS NULL AND TRIM(`_neve_in_e`) <> ''
      )
      OR (
        `_neve_as_f` IS NULL AND NOT LOWER(TRIM(`_neve_in_f`)) IN ('', 'nan')
      )
      OR (
        `_neve_as_g` IS NULL AND TRIM(`_neve_in_g`) <> ''
      )
      OR (
        `_neve_as_h` IS NULL AND TRIM(`_neve_in_h`) <> ''
      )
      OR (
        `_neve_as_i` IS NULL AND TRIM(`_neve_in_i`) <> ''
      )
      OR (
        `_neve_as_k` IS NULL AND TRIM(`_neve_in_k`) <> ''
      )
      OR `_neve_as_g` IS NULL,
      ARRAY_REMOVE(
        ARRAY(
          IF(`_neve_as_b` IS NULL AND TRIM(`_neve_in_b`) <> '', 'cast:b', ''),
          IF(`_neve_as_c` IS NULL AND TRIM(`_neve_in_c`) <> '', 'cast:c', ''),
          IF(`_neve_as_d` IS NULL AND TRIM(`_neve_in_d`) <> '', 'cast:d', ''),
          IF(`_neve_as_e` IS NULL AND TRIM(`_neve_in_e`) <> '', 'cast:e', ''),
          IF(`_neve_as_f` IS NULL AND NOT LOWER(TRIM(`_neve_in_f`)) IN ('', 'nan'), 'cast:f', ''),
          IF(`_neve_as_g` IS NULL AND TRIM(`_neve_in_g`) <> '', 'cast:g', ''),
          IF(`_neve_as_h` IS NULL AND TRIM(`_neve_in_h`) <> '', 'cast:h', ''),
          IF(`_neve_as_i` IS NULL AND TRIM(`_neve_in_i`) <> '', 'cast:i', ''),
          IF(`_neve_as_k` IS NULL AND TRIM(`_neve_in_k`) <> '', 'cast:k', ''),
          IF(`_neve_as_g` IS NULL, 'not_null:g', '')
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM typed
)
SELECT
  `_neve_in_a` AS `a`,
  `_neve_as_b` AS `b`,
  `_neve_as_c` AS `c`,
  `_neve_as_d` AS `d`,
  `_neve_as_e` AS `e`,
  `_neve_as_f` AS `f`,
  `_neve_as_g` AS `g`,
  `_neve_as_h` AS `h`,
  `_neve_as_i` AS `i`,
  `_neve_in_j` AS `j`,
  `_neve_as_k` AS `k`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT(
        'a',
        `_neve_of_a`,
        'b',
        `_neve_of_b`,
        'c',
        `_neve_of_c`,
        'd',
        `_neve_of_d`,
        'e',
        `_neve_of_e`,
        'f',
        `_neve_of_f`,
        'g',
        `_neve_of_g`,
        'h',
        `_neve_of_h`,
        'i',
        `_neve_of_i`,
        'j',
        `_neve_of_j`,
        'k',
        `_neve_of_k`
      ),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
