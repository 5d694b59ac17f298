-- columns
--   date: date
--   quantity: int
--   price: double
--   region: string
-- rules
--   'cast:date'
--   'cast:quantity'
--   'cast:price'
--   'filter:quantity > 0'
--   'filter:price > 0'
-- order by
-- unused
--   'product_id'
--   'customer_id'
-- missing
WITH inputs AS (
  SELECT
    `date` AS `_neve_of_date`,
    `product_id` AS `_neve_of_product_id`,
    `quantity` AS `_neve_of_quantity`,
    `price` AS `_neve_of_price`,
    `customer_id` AS `_neve_of_customer_id`,
    `region` AS `_neve_of_region`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    CAST(`date` AS STRING) AS `_neve_in_date`,
    CAST(`quantity` AS STRING) AS `_neve_in_quantity`,
    CAST(`price` AS STRING) AS `_neve_in_price`,
    UPPER(CAST(`region` AS STRING)) AS `_neve_in_region`
  FROM source
), tried AS (
  SELECT
    *,
    TRY_CAST(`_neve_in_date` AS DATE) AS `_neve_try_date`,
    TRY_CAST(`_neve_in_price` AS DOUBLE) AS `_neve_try_price`
  FROM inputs
), typed AS (
  SELECT
    *,
    IF(
      (
        OCTET_LENGTH(`_neve_in_date`) = 10
        AND SUBSTRING(CAST(`_neve_in_date` AS BINARY), 5, 1) BETWEEN X'2d' AND X'2d'
        AND SUBSTRING(CAST(`_neve_in_date` AS BINARY), 8, 1) BETWEEN X'2d' AND X'2d'
        AND SUBSTRING(CAST(`_neve_in_date` AS BINARY), 10, 1) BETWEEN X'30' AND X'39'
        AND `_neve_try_date` >= CAST('0001-01-01' AS DATE)
      )
      OR `_neve_in_date` RLIKE '^\\s*(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]00:00(:00(\\.0+)?)?Z?)?\\s*$',
      `_neve_try_date`,
      NULL
    ) AS `_neve_as_date`,
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
), judged AS (
  SELECT
    *,
    IF(
      (
        `_neve_as_date` IS NULL AND TRIM(`_neve_in_date`) <> ''
      )
      OR (
        `_neve_as_quantity` IS NULL AND TRIM(`_neve_in_quantity`) <> ''
      )
      OR (
        `_neve_as_price` IS NULL AND NOT LOWER(TRIM(`_neve_in_price`)) IN ('', 'nan')
      )
      OR NOT COALESCE(`_neve_as_quantity` > 0, FALSE)
      OR NOT COALESCE(`_neve_as_price` > 0, FALSE),
      ARRAY_REMOVE(
        ARRAY(
          IF(`_neve_as_date` IS NULL AND TRIM(`_neve_in_date`) <> '', 'cast:date', ''),
          IF(`_neve_as_quantity` IS NULL AND TRIM(`_neve_in_quantity`) <> '', 'cast:quantity', ''),
          IF(
            `_neve_as_price` IS NULL AND NOT LOWER(TRIM(`_neve_in_price`)) IN ('', 'nan'),
            'cast:price',
            ''
          ),
          IF(NOT COALESCE(`_neve_as_quantity` > 0, FALSE), 'filter:quantity > 0', ''),
          IF(NOT COALESCE(`_neve_as_price` > 0, FALSE), 'filter:price > 0', '')
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM typed
)
SELECT
  `_neve_as_date` AS `date`,
  `_neve_as_quantity` AS `quantity`,
  `_neve_as_price` AS `price`,
  `_neve_in_region` AS `region`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT(
        'date',
        `_neve_of_date`,
        'product_id',
        `_neve_of_product_id`,
        'quantity',
        `_neve_of_quantity`,
        'price',
        `_neve_of_price`,
        'customer_id',
        `_neve_of_customer_id`,
        'region',
        `_neve_of_region`
      ),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
