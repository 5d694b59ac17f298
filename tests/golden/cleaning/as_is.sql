-- columns
--   id: bigint
--   a b: string
--   text: string
-- rules
--   'filter:id > 0'
-- order by
-- unused
-- missing
WITH inputs AS (
  SELECT
    `id` AS `_neve_of_id`,
    `a b` AS `_neve_of_a b`,
    `text` AS `_neve_of_text`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    `id` AS `_neve_in_id`,
    `a b` AS `_neve_in_a b`,
    CAST(`text` AS STRING) AS `_neve_in_text`
  FROM source
), judged AS (
  SELECT
    *,
    IF(
      NOT COALESCE(`_neve_in_id` > 0, FALSE),
      ARRAY_REMOVE(ARRAY(IF(NOT COALESCE(`_neve_in_id` > 0, FALSE), 'filter:id > 0', '')), ''),
      NULL
    ) AS `_neve_rejected`
  FROM inputs
)
SELECT
  `_neve_in_id` AS `id`,
  `_neve_in_a b` AS `a b`,
  `_neve_in_text` AS `text`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT('id', `_neve_of_id`, 'a b', `_neve_of_a b`, 'text', `_neve_of_text`),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
