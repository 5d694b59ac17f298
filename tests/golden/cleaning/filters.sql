-- columns
--   n: bigint
--   t: timestamp
--   d: decimal(9,2)
--   b: boolean
--   x: double
--   s: string
-- rules
--   'cast:n'
--   'cast:t'
--   'cast:d'
--   'cast:b'
--   'cast:x'
--   'filter:n = 7'
--   'filter:n != -8'
--   'filter:n > 0.5'
--   'filter:n < 1e3'
--   'filter:t >= 2024-01-31T10:00:00+02:00'
--   'filter:t <= 2024-12-31'
--   'filter:d between 0 and 99.50'
--   'filter:b = true'
--   'filter:b not_in (false)'
--   'filter:x in (1.5, 1e300)'
--   'filter:s like a\\_b%'
--   "filter:s not_like %'%"
--   "filter:s not_in (it's, back\\slash, new\nline)"
--   'filter:s is_not_null'
--   'filter:s not_empty'
--   'filter:n not_empty'
--   'filter:x is_null'
-- order by
-- unused
-- missing
WITH inputs AS (
  SELECT
    `n` AS `_neve_of_n`,
    `t` AS `_neve_of_t`,
    `d` AS `_neve_of_d`,
    `b` AS `_neve_of_b`,
    `x` AS `_neve_of_x`,
    `s` AS `_neve_of_s`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    CAST(`n` AS STRING) AS `_neve_in_n`,
    CAST(`t` AS STRING) AS `_neve_in_t`,
    CAST(`d` AS STRING) AS `_neve_in_d`,
    CAST(`b` AS STRING) AS `_neve_in_b`,
    CAST(`x` AS STRING) AS `_neve_in_x`,
    CAST(`s` AS STRING) AS `_neve_in_s`
  FROM source
), tried AS (
  SELECT
    *,
    TRY_CAST(`_neve_in_x` AS DOUBLE) AS `_neve_try_x`
  FROM inputs
), typed AS (
  SELECT
    *,
    COALESCE(
      TRY_CAST(`_neve_in_n` AS BIGINT),
      TRY_CAST(IF(
        `_neve_in_n` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_n`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_n`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_n` AS DECIMAL(38, 0)),
        NULL
      ) AS BIGINT)
    ) AS `_neve_as_n`,
    IF(
      `_neve_in_t` RLIKE '^\\s*(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,6}0*)?( ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?)?)?\\s*$',
      TRY_CAST(`_neve_in_t` AS TIMESTAMP),
      NULL
    ) AS `_neve_as_t`,
    IF(
      `_neve_in_d` RLIKE '^\\s*[+-]?([0-9]*(\\.[0-9]{0,2}0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
      OR LENGTH(
        REGEXP_EXTRACT(`_neve_in_d`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
      ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_d`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 2,
      TRY_CAST(`_neve_in_d` AS DECIMAL(9, 2)),
      NULL
    ) AS `_neve_as_d`,
    TRY_CAST(`_neve_in_b` AS BOOLEAN) AS `_neve_as_b`,
    IF(
      (
        (
          (
            SUBSTRING(CAST(`_neve_in_x` AS BINARY), -1, 1) BETWEEN X'2e' AND X'39'
            AND NOT (
              CONTAINS(`_neve_in_x`, 'x') OR CONTAINS(`_neve_in_x`, 'X')
            )
          )
          OR `_neve_in_x` RLIKE '^\\s*[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?\\s*$'
        )
        AND ABS(`_neve_try_x`) < CAST('Infinity' AS DOUBLE)
      )
      OR `_neve_in_x` RLIKE '(?i)^\\s*[+-]?inf(inity)?\\s*$',
      `_neve_try_x`,
      NULL
    ) AS `_neve_as_x`
  FROM tried
), judged AS (
  SELECT
    *,
    IF(
      (
        `_neve_as_n` IS NULL AND TRIM(`_neve_in_n`) <> ''
      )
      OR (
        `_neve_as_t` IS NULL AND TRIM(`_neve_in_t`) <> ''
      )
      OR (
        `_neve_as_d` IS NULL AND TRIM(`_neve_in_d`) <> ''
      )
      OR (
        `_neve_as_b` IS NULL AND TRIM(`_neve_in_b`) <> ''
      )
      OR (
        `_neve_as_x` IS NULL AND NOT LOWER(TRIM(`_neve_in_x`)) IN ('', 'nan')
      )
      OR NOT COALESCE(`_neve_as_n` = 7, FALSE)
      OR NOT (
        `_neve_as_n` <> -8
      )
      OR NOT COALESCE(`_neve_as_n` > 0.5, FALSE)
      OR NOT COALESCE(`_neve_as_n` < 1000, FALSE)
      OR NOT COALESCE(`_neve_as_t` >= CAST('2024-01-31 10:00:00+02:00' AS TIMESTAMP), FALSE)
      OR NOT (
        `_neve_as_t` <= CAST('2024-12-31 00:00:00' AS TIMESTAMP)
      )
      OR NOT COALESCE(`_neve_as_d` BETWEEN 0 AND 99.5, FALSE)
      OR NOT COALESCE(`_neve_as_b` = TRUE, FALSE)
      OR NOT (
        NOT `_neve_as_b` IN (FALSE)
      )
      OR NOT COALESCE(`_neve_as_x` IN (1.5, CAST('1E+300' AS DOUBLE)), FALSE)
      OR NOT COALESCE(`_neve_in_s` LIKE 'a\\_b%', FALSE)
      OR NOT (
        NOT `_neve_in_s` LIKE '%\'%'
      )
      OR NOT COALESCE(NOT `_neve_in_s` IN ('it\'s', 'back\\slash', 'new\nline'), FALSE)
      OR NOT COALESCE(NOT `_neve_in_s` IS NULL, FALSE)
      OR NOT (
        TRIM(`_neve_in_s`) <> ''
      )
      OR NOT COALESCE(TRIM(CAST(`_neve_as_n` AS STRING)) <> '', FALSE)
      OR NOT COALESCE(`_neve_as_x` IS NULL, FALSE),
      ARRAY_REMOVE(
        ARRAY(
          IF(`_neve_as_n` IS NULL AND TRIM(`_neve_in_n`) <> '', 'cast:n', ''),
          IF(`_neve_as_t` IS NULL AND TRIM(`_neve_in_t`) <> '', 'cast:t', ''),
          IF(`_neve_as_d` IS NULL AND TRIM(`_neve_in_d`) <> '', 'cast:d', ''),
          IF(`_neve_as_b` IS NULL AND TRIM(`_neve_in_b`) <> '', 'cast:b', ''),
          IF(`_neve_as_x` IS NULL AND NOT LOWER(TRIM(`_neve_in_x`)) IN ('', 'nan'), 'cast:x', ''),
          IF(NOT COALESCE(`_neve_as_n` = 7, FALSE), 'filter:n = 7', ''),
          IF(NOT (
            `_neve_as_n` <> -8
          ), 'filter:n != -8', ''),
          IF(NOT COALESCE(`_neve_as_n` > 0.5, FALSE), 'filter:n > 0.5', ''),
          IF(NOT COALESCE(`_neve_as_n` < 1000, FALSE), 'filter:n < 1e3', ''),
          IF(
            NOT COALESCE(`_neve_as_t` >= CAST('2024-01-31 10:00:00+02:00' AS TIMESTAMP), FALSE),
            'filter:t >= 2024-01-31T10:00:00+02:00',
            ''
          ),
          IF(
            NOT (
              `_neve_as_t` <= CAST('2024-12-31 00:00:00' AS TIMESTAMP)
            ),
            'filter:t <= 2024-12-31',
            ''
          ),
          IF(
            NOT COALESCE(`_neve_as_d` BETWEEN 0 AND 99.5, FALSE),
            'filter:d between 0 and 99.50',
            ''
          ),
          IF(NOT COALESCE(`_neve_as_b` = TRUE, FALSE), 'filter:b = true', ''),
          IF(NOT (
            NOT `_neve_as_b` IN (FALSE)
          ), 'filter:b not_in (false)', ''),
          IF(
            NOT COALESCE(`_neve_as_x` IN (1.5, CAST('1E+300' AS DOUBLE)), FALSE),
            'filter:x in (1.5, 1e300)',
            ''
          ),
          IF(NOT COALESCE(`_neve_in_s` LIKE 'a\\_b%', FALSE), 'filter:s like a\\_b%', ''),
          IF(NOT (
            NOT `_neve_in_s` LIKE '%\'%'
          ), 'filter:s not_like %\'%', ''),
          IF(
            NOT COALESCE(NOT `_neve_in_s` IN ('it\'s', 'back\\slash', 'new\nline'), FALSE),
            'filter:s not_in (it\'s, back\\slash, new\nline)',
            ''
          ),
          IF(NOT COALESCE(NOT `_neve_in_s` IS NULL, FALSE), 'filter:s is_not_null', ''),
          IF(NOT (
            TRIM(`_neve_in_s`) <> ''
          ), 'filter:s not_empty', ''),
          IF(
            NOT COALESCE(TRIM(CAST(`_neve_as_n` AS STRING)) <> '', FALSE),
            'filter:n not_empty',
            ''
          ),
          IF(NOT COALESCE(`_neve_as_x` IS NULL, FALSE), 'filter:x is_null', '')
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM typed
)
SELECT
  `_neve_as_n` AS `n`,
  `_neve_as_t` AS `t`,
  `_neve_as_d` AS `d`,
  `_neve_as_b` AS `b`,
  `_neve_as_x` AS `x`,
  `_neve_in_s` AS `s`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT(
        'n',
        `_neve_of_n`,
        't',
        `_neve_of_t`,
        'd',
        `_neve_of_d`,
        'b',
        `_neve_of_b`,
        'x',
        `_neve_of_x`,
        's',
        `_neve_of_s`
      ),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
