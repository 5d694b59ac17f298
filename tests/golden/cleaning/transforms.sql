-- columns
--   a: string
--   b: int
--   c: date
--   d: timestamp not null
-- rules
--   'cast:b'
--   'cast:c'
--   'cast:d'
-- order by
-- unused
-- missing
WITH inputs AS (
  SELECT
    `a` AS `_neve_of_a`,
    `b` AS `_neve_of_b`,
    `c` AS `_neve_of_c`,
    `d` AS `_neve_of_d`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    NULLIF(REGEXP_REPLACE(INITCAP(LOWER(RTRIM(LTRIM(CAST(`a` AS STRING))))), '\\s+', ' '), '') AS `_neve_in_a`,
    TRIM(NULLIF(CAST(`b` AS STRING), '')) AS `_neve_in_b`,
    CAST(`c` AS STRING) AS `_neve_in_c`,
    CAST(`d` AS STRING) AS `_neve_in_d`
  FROM source
), typed AS (
  SELECT
    *,
    COALESCE(
      TRY_CAST(`_neve_in_b` AS INT),
      TRY_CAST(IF(
        `_neve_in_b` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_b`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_b`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_b` AS DECIMAL(38, 0)),
        NULL
      ) AS INT)
    ) AS `_neve_as_b`,
    TRY_TO_DATE(TRIM(`_neve_in_c`), 'dd.MM.yyyy') AS `_neve_as_c`,
    TRY_TO_TIMESTAMP(TRIM(`_neve_in_d`), 'yyyy-MM-dd\'T\'HH:mm') AS `_neve_as_d`
  FROM inputs
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
      ),
      ARRAY_REMOVE(
        ARRAY(
          IF(`_neve_as_b` IS NULL AND TRIM(`_neve_in_b`) <> '', 'cast:b', ''),
          IF(`_neve_as_c` IS NULL AND TRIM(`_neve_in_c`) <> '', 'cast:c', ''),
          IF(`_neve_as_d` IS NULL AND TRIM(`_neve_in_d`) <> '', 'cast:d', '')
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM typed
)
SELECT
  COALESCE(`_neve_in_a`, 'none') AS `a`,
  COALESCE(`_neve_as_b`, CAST(-1 AS INT)) AS `b`,
  `_neve_as_c` AS `c`,
  COALESCE(`_neve_as_d`, CAST('2024-01-01 12:00:00' AS TIMESTAMP)) AS `d`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT('a', `_neve_of_a`, 'b', `_neve_of_b`, 'c', `_neve_of_c`, 'd', `_neve_of_d`),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
