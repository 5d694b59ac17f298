-- columns
--   id: bigint
--   short_id: int
--   ratio: double
--   note: string
--   tags: array<string>
--   at: timestamp
--   day: date
--   label: string
-- rules
--   'cast:short_id'
--   'cast:day'
-- order by
-- unused
-- missing
WITH inputs AS (
  SELECT
    `id` AS `_neve_of_id`,
    `ratio` AS `_neve_of_ratio`,
    `note` AS `_neve_of_note`,
    `tags` AS `_neve_of_tags`,
    `at` AS `_neve_of_at`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    `id` AS `_neve_in_id`,
    CAST(`id` AS STRING) AS `_neve_in_short_id`,
    IF(ISNAN(`ratio`), NULL, `ratio`) AS `_neve_in_ratio`,
    TRIM(`note`) AS `_neve_in_note`,
    `tags` AS `_neve_in_tags`,
    `at` AS `_neve_in_at`,
    CAST(`at` AS STRING) AS `_neve_in_day`,
    TRIM(CAST(`id` AS STRING)) AS `_neve_in_label`
  FROM source
), tried AS (
  SELECT
    *,
    TRY_CAST(`_neve_in_day` AS DATE) AS `_neve_try_day`
  FROM inputs
), typed AS (
  SELECT
    *,
    COALESCE(
      TRY_CAST(`_neve_in_short_id` AS INT),
      TRY_CAST(IF(
        `_neve_in_short_id` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_short_id`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_short_id`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_short_id` AS DECIMAL(38, 0)),
        NULL
      ) AS INT)
    ) AS `_neve_as_short_id`,
    IF(
      (
        OCTET_LENGTH(`_neve_in_day`) = 10
        AND SUBSTRING(CAST(`_neve_in_day` AS BINARY), 5, 1) BETWEEN X'2d' AND X'2d'
        AND SUBSTRING(CAST(`_neve_in_day` AS BINARY), 8, 1) BETWEEN X'2d' AND X'2d'
        AND SUBSTRING(CAST(`_neve_in_day` AS BINARY), 10, 1) BETWEEN X'30' AND X'39'
        AND `_neve_try_day` >= CAST('0001-01-01' AS DATE)
      )
      OR `_neve_in_day` RLIKE '^\\s*(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]00:00(:00(\\.0+)?)?Z?)?\\s*$',
      `_neve_try_day`,
      NULL
    ) AS `_neve_as_day`
  FROM tried
), judged AS (
  SELECT
    *,
    IF(
      (
        `_neve_as_short_id` IS NULL AND TRIM(`_neve_in_short_id`) <> ''
      )
      OR (
        `_neve_as_day` IS NULL AND TRIM(`_neve_in_day`) <> ''
      ),
      ARRAY_REMOVE(
        ARRAY(
          IF(`_neve_as_short_id` IS NULL AND TRIM(`_neve_in_short_id`) <> '', 'cast:short_id', ''),
          IF(`_neve_as_day` IS NULL AND TRIM(`_neve_in_day`) <> '', 'cast:day', '')
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM typed
)
SELECT
  `_neve_in_id` AS `id`,
  `_neve_as_short_id` AS `short_id`,
  `_neve_in_ratio` AS `ratio`,
  `_neve_in_note` AS `note`,
  `_neve_in_tags` AS `tags`,
  `_neve_in_at` AS `at`,
  `_neve_as_day` AS `day`,
  COALESCE(`_neve_in_label`, '0') AS `label`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT(
        'id',
        `_neve_of_id`,
        'ratio',
        `_neve_of_ratio`,
        'note',
        `_neve_of_note`,
        'tags',
        `_neve_of_tags`,
        'at',
        `_neve_of_at`
      ),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
