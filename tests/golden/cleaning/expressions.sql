-- columns
--   quantity: int
--   price: double
--   revenue: decimal(12,2)
--   region: string
--   same: boolean
--   file: string
--   first: string
--   gone: date
--   never: int not null
-- rules
--   'cast:quantity'
--   'cast:price'
--   'cast:revenue'
--   'cast:same'
--   'cast:never'
--   'not_null:never'
-- order by
--   'region asc nulls first'
--   'quantity desc nulls last'
-- unused
-- missing
--   'missing'
--   'absent'
WITH inputs AS (
  SELECT
    `Quantity` AS `_neve_of_Quantity`,
    `price` AS `_neve_of_price`,
    `region` AS `_neve_of_region`,
    `raw name` AS `_neve_of_raw name`,
    `tags` AS `_neve_of_tags`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    CAST(`Quantity` AS STRING) AS `_neve_in_quantity`,
    CAST(`price` AS STRING) AS `_neve_in_price`,
    CAST(NULL AS DATE) AS `_neve_in_gone`
  FROM source
), tried AS (
  SELECT
    *,
    TRY_CAST(`_neve_in_price` AS DOUBLE) AS `_neve_try_price`
  FROM inputs
), typed AS (
  SELECT
    *,
    COALESCE(
      TRY_CAST(`_neve_in_quantity` AS INT),
      TRY_CAST(IF(
        `_neve_in_quantity` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_quantity`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_quantity`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_quantity` AS DECIMAL(38, 0)),
        NULL
      ) AS INT)
    ) AS `_neve_as_quantity`,
    IF(
      (
        (
          (
            SUBSTRING(CAST(`_neve_in_price` AS BINARY), -1, 1) BETWEEN X'2e' AND X'39'
            AND NOT (
              CONTAINS(`_neve_in_price`, 'x') OR CONTAINS(`_neve_in_price`, 'X')
            )
          )
          OR `_neve_in_price` RLIKE '^\\s*[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?\\s*$'
        )
        AND ABS(`_neve_try_price`) < CAST('Infinity' AS DOUBLE)
      )
      OR `_neve_in_price` RLIKE '(?i)^\\s*[+-]?inf(inity)?\\s*$',
      `_neve_try_price`,
      NULL
    ) AS `_neve_as_price`
  FROM tried
), computed AS (
  SELECT
    *,
    CAST((round(COALESCE(`_neve_as_quantity`, CAST(1 AS INT)) * `_neve_as_price`, 2)) AS STRING) AS `_neve_in_revenue`,
    UPPER(
      TRIM(CAST((coalesce(nullif(`_neve_of_region`, ''), `_neve_of_raw name`)) AS STRING))
    ) AS `_neve_in_region`,
    CAST((`_neve_of_Quantity` = CAST(COALESCE(`_neve_as_quantity`, CAST(1 AS INT)) AS STRING)) AS STRING) AS `_neve_in_same`,
    CAST((regexp_extract(`_source_file`, '([^/]+)$', 1)) AS STRING) AS `_neve_in_file`,
    CAST((variant_get(parse_json(`_neve_of_tags`), '$[0]', 'string') || transform(split(`_neve_of_tags`, ','), x -> x || `_neve_as_price`)[0]) AS STRING) AS `_neve_in_first`,
    CAST((CAST(NULL AS STRING) + 1) AS STRING) AS `_neve_in_never`
  FROM typed
), computed_typed AS (
  SELECT
    *,
    IF(
      `_neve_in_revenue` RLIKE '^\\s*[+-]?([0-9]*(\\.[0-9]{0,2}0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
      OR LENGTH(
        REGEXP_EXTRACT(`_neve_in_revenue`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
      ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_revenue`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 2,
      TRY_CAST(`_neve_in_revenue` AS DECIMAL(12, 2)),
      NULL
    ) AS `_neve_as_revenue`,
    TRY_CAST(`_neve_in_same` AS BOOLEAN) AS `_neve_as_same`,
    COALESCE(
      TRY_CAST(`_neve_in_never` AS INT),
      TRY_CAST(IF(
        `_neve_in_never` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(`_neve_in_never`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 1)
        ) - TRY_CAST(REGEXP_EXTRACT(`_neve_in_never`, '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$', 2) AS INT) <= 0,
        TRY_CAST(`_neve_in_never` AS DECIMAL(38, 0)),
        NULL
      ) AS INT)
    ) AS `_neve_as_never`
  FROM computed
), judged AS (
  SELECT
    *,
    IF(
      (
        `_neve_as_quantity` IS NULL AND TRIM(`_neve_in_quantity`) <> ''
      )
      OR (
        `_neve_as_price` IS NULL AND NOT LOWER(TRIM(`_neve_in_price`)) IN ('', 'nan')
      )
      OR (
        `_neve_as_revenue` IS NULL AND TRIM(`_neve_in_revenue`) <> ''
      )
      OR (
        `_neve_as_same` IS NULL AND TRIM(`_neve_in_same`) <> ''
      )
      OR (
        `_neve_as_never` IS NULL AND TRIM(`_neve_in_never`) <> ''
      )
      OR `_neve_as_never` IS NULL,
      ARRAY_REMOVE(
        ARRAY(
          IF(`_neve_as_quantity` IS NULL AND TRIM(`_neve_in_quantity`) <> '', 'cast:quantity', ''),
          IF(
            `_neve_as_price` IS NULL AND NOT LOWER(TRIM(`_neve_in_price`)) IN ('', 'nan'),
            'cast:price',
            ''
          ),
          IF(`_neve_as_revenue` IS NULL AND TRIM(`_neve_in_revenue`) <> '', 'cast:revenue', ''),
          IF(`_neve_as_same` IS NULL AND TRIM(`_neve_in_same`) <> '', 'cast:same', ''),
          IF(`_neve_as_never` IS NULL AND TRIM(`_neve_in_never`) <> '', 'cast:never', ''),
          IF(`_neve_as_never` IS NULL, 'not_null:never', '')
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM computed_typed
)
SELECT
  COALESCE(`_neve_as_quantity`, CAST(1 AS INT)) AS `quantity`,
  `_neve_as_price` AS `price`,
  COALESCE(`_neve_as_revenue`, CAST(0 AS DECIMAL(12, 2))) AS `revenue`,
  `_neve_in_region` AS `region`,
  `_neve_as_same` AS `same`,
  `_neve_in_file` AS `file`,
  `_neve_in_first` AS `first`,
  COALESCE(`_neve_in_gone`, CAST('2024-01-01' AS DATE)) AS `gone`,
  `_neve_as_never` AS `never`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT(
        'Quantity',
        `_neve_of_Quantity`,
        'price',
        `_neve_of_price`,
        'region',
        `_neve_of_region`,
        'raw name',
        `_neve_of_raw name`,
        'tags',
        `_neve_of_tags`
      ),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
