SELECT DISTINCT g FROM a
-- derived
-- table (keyed by g, also keeps _neve_rows) [add to stored rows]
--   project g_2, rows [projection]
--     aggregate COUNT(*) by g_2 [sums]
--       project g_2 [projection]
--         table default.a [source]
-- reads: delta_a, stored
-- kept: added, touched
-- few: delta_a, added
WITH project_delta AS (
  SELECT
    `delta_a`.`g` AS `g_2`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), added AS (
  SELECT
    `g_2`,
    SUM(`_w`) AS `add_rows`
  FROM project_delta
  GROUP BY
    `g_2`
), stored_rows AS (
  SELECT
    `stored`.`g` AS `old_g_2`,
    `stored`.`_neve_rows` AS `old_rows`,
    TRUE AS `old_there`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM added
      WHERE
        `g_2` IS NOT DISTINCT FROM `stored`.`g`
    )
), touched AS (
  SELECT
    `g_2`,
    `add_rows`,
    `old_g_2`,
    `old_rows`,
    COALESCE(`old_there`, FALSE) AS `old_there`
  FROM added
  LEFT JOIN stored_rows
    ON `g_2` IS NOT DISTINCT FROM `old_g_2`
), step AS (
  SELECT
    `g_2`,
    (
      COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) AS `rows`
  FROM touched
  WHERE
    (
      COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) > 0
    AND NOT (
      `old_there`
      AND `old_rows` IS NOT DISTINCT FROM (
        COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
      )
    )
), come AS (
  SELECT
    `g_2`,
    `rows`
  FROM step
), changes AS (
  SELECT
    `old_g_2` AS `g_2`,
    `old_rows` AS `rows`,
    -1 AS `_w`
  FROM touched
  WHERE
    `old_there`
    AND NOT (
      (
        COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
      ) > 0
      AND `old_rows` IS NOT DISTINCT FROM (
        COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
      )
    )
  UNION ALL
  SELECT
    `g_2`,
    `rows`,
    1 AS `_w`
  FROM come
)
SELECT
  `g_2` AS `g`,
  `rows` AS `_neve_rows`,
  CAST(`_w` AS BIGINT) AS `_w`
FROM changes
