SELECT g, min(x) AS lo FROM a GROUP BY g
-- derived
-- table (keyed by g, also keeps _neve_rows) [add to stored rows]
--   project g_2, lo, g, rows, min_of_x [projection]
--     project g, rows, min_of_x, min_x [projection]
--       aggregate COUNT(*), MIN(`x`) by g [sums and extrema]
--         table default.a [source]
-- reads: delta_a, new_a, stored
-- kept: added, touched
-- few: delta_a, added
WITH scan_delta AS (
  SELECT
    `delta_a`.`g` AS `g`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), added AS (
  SELECT
    `g`,
    SUM(`_w`) AS `add_rows`,
    MIN(CASE WHEN `_w` > 0 THEN `x` END) AS `add_min_of_x`,
    MIN(CASE WHEN `_w` < 0 THEN `x` END) AS `del_min_of_x`
  FROM scan_delta
  GROUP BY
    `g`
), stored_rows AS (
  SELECT
    `stored`.`g` AS `old_g_2`,
    `stored`.`lo` AS `old_lo`,
    `stored`.`_neve_rows` AS `old_rows`,
    TRUE AS `old_there`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM added
      WHERE
        `g` IS NOT DISTINCT FROM `stored`.`g`
    )
), touched AS (
  SELECT
    `g`,
    `add_rows`,
    `add_min_of_x`,
    `del_min_of_x`,
    `old_g_2`,
    `old_lo`,
    `old_rows`,
    COALESCE(`old_there`, FALSE) AS `old_there`
  FROM added
  LEFT JOIN stored_rows
    ON `g` IS NOT DISTINCT FROM `old_g_2`
), lost AS (
  SELECT
    `g`
  FROM touched
  WHERE
    COALESCE(`del_min_of_x` <= `old_lo`, FALSE)
), keys AS (
  SELECT DISTINCT
    `g` AS `k_g`
  FROM lost
), scan_new AS (
  SELECT
    `new_a`.`g` AS `g`,
    `new_a`.`x` AS `x`
  FROM new_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_g` IS NOT DISTINCT FROM `new_a`.`g`
    )
), step_2 AS (
  SELECT
    `g`,
    COUNT(*) AS `rows`,
    MIN(`x`) AS `min_of_x`
  FROM scan_new
  GROUP BY
    `g`
), come_2 AS (
  SELECT
    `g` AS `g_2`,
    `min_of_x` AS `lo`,
    `g`,
    `rows`,
    `min_of_x`
  FROM step_2
), step AS (
  SELECT
    `g`,
    (
      COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) AS `rows`,
    LEAST(`old_lo`, `add_min_of_x`) AS `min_of_x`
  FROM touched
  WHERE
    (
      COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) > 0
    AND NOT COALESCE(`del_min_of_x` <= `old_lo`, FALSE)
), come AS (
  SELECT
    `g` AS `g_2`,
    `min_of_x` AS `lo`,
    `g`,
    `rows`,
    `min_of_x`
  FROM step
), changes AS (
  SELECT
    `old_g_2` AS `g_2`,
    `old_lo` AS `lo`,
    `old_rows` AS `rows`,
    -1 AS `_w`
  FROM touched
  WHERE
    `old_there`
  UNION ALL
  SELECT
    `g_2`,
    `lo`,
    `rows`,
    1 AS `_w`
  FROM come
  UNION ALL
  SELECT
    `g_2`,
    `lo`,
    `rows`,
    1 AS `_w`
  FROM come_2
)
SELECT
  `g_2` AS `g`,
  `lo`,
  `rows` AS `_neve_rows`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `g_2`,
  `lo`,
  `rows`
HAVING
  SUM(`_w`) <> 0
