-- columns
--   id: bigint
--   price: decimal(10,2)
--   day: date
--   na me: string
-- rules
--   'cast:id'
--   'cast:price'
--   'cast:day'
-- order by
-- unused
-- missing
WITH inputs AS (
  SELECT
    `id` AS `_neve_of_id`,
    `price` AS `_neve_of_price`,
    `day` AS `_neve_of_day`,
    `na me` AS `_neve_of_na me`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    CAST(`id` AS STRING) AS `_neve_in_id`,
    CAST(`price` AS STRING) AS `_neve_in_price`,
    CAST(`day` AS STRING) AS `_neve_in_day`,
    CAST(`na me` AS STRING) AS `_neve_in_na me`
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
      TRY_CAST(`_neve_in_id` AS BIGINT),
      TRY_CAST(IF(
        `_neve_in_id` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_id`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_id`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_id` AS DECIMAL(38, 0)),
        NULL
      ) AS BIGINT)
    ) AS `_neve_as_id`,
    IF(
      `_neve_in_price` RLIKE '^\\s*[+-]?([0-9]*(\\.[0-9]{0,2}0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
      OR LENGTH(
        REGEXP_EXTRACT(`_neve_in_price`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
      ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_price`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 2,
      TRY_CAST(`_neve_in_price` AS DECIMAL(10, 2)),
      NULL
    ) AS `_neve_as_price`,
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
        `_neve_as_id` IS NULL AND TRIM(`_neve_in_id`) <> ''
      )
      OR (
        `_neve_as_price` IS NULL AND TRIM(`_neve_in_price`) <> ''
      )
      OR (
        `_neve_as_day` IS NULL AND TRIM(`_neve_in_day`) <> ''
      ),
      ARRAY_REMOVE(
        ARRAY(
          IF(`_neve_as_id` IS NULL AND TRIM(`_neve_in_id`) <> '', 'cast:id', ''),
          IF(`_neve_as_price` IS NULL AND TRIM(`_neve_in_price`) <> '', 'cast:price', ''),
          IF(`_neve_as_day` IS NULL AND TRIM(`_neve_in_day`) <> '', 'cast:day', '')
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM typed
)
SELECT
  `_neve_as_id` AS `id`,
  `_neve_as_price` AS `price`,
  `_neve_as_day` AS `day`,
  `_neve_in_na me` AS `na me`,
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
        'price',
        `_neve_of_price`,
        'day',
        `_neve_of_day`,
        'na me',
        `_neve_of_na me`
      ),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
-- error: at most 0
ARRAY(COUNT_IF(NOT COALESCE((`price` >= 0 AND `na me` <> 'x'), FALSE)), COUNT(*)) AS `Price >= 0 AND ``NA ME`` <> 'x' -- said`
-- warn: at most 2.5 %
ARRAY(COUNT_IF(NOT COALESCE((`price` is not null), FALSE)), COUNT(*)) AS `most have a price`
-- error: at most 10
ARRAY(COUNT_IF(NOT COALESCE((`day` < date '2025-01-01'), FALSE)), COUNT(*)) AS `few are late`
-- error: > Decimal('0')
COUNT(*) AS `row_count > 0`
-- error: <= Decimal('0.01')
ARRAY(COUNT_IF(`id` IS NULL), COUNT(*)) AS `null_ratio(ID) <= 0.01`
-- error: = Decimal('1')
ARRAY(COUNT(DISTINCT `id`), COUNT(`id`)) AS `uniqueness(id) = 1`
-- error: >= datetime.date(2020, 1, 1)
MIN(`day`) AS `min(day) >= 2020-01-01`
-- error: < 'zz'
MAX(`na me`) AS `max(na me) < zz`
-- error: != Decimal('0.50')
SUM(`price`) AS `sum(price) != 0.50`
-- error: <= Decimal('500')
COUNT(DISTINCT `na me`) AS `distinct_count(na me) <= 500`
