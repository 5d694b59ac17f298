SELECT k, g, x FROM a QUALIFY row_number() OVER (PARTITION BY g ORDER BY x) = 1
-- derived
-- table (keyed by g) [replace touched keys]
--   project k_2, g_2, x_2, g [projection]
--     filter `rownumber` = 1 [filter]
--       window ROW_NUMBER() OVER (PARTITION BY `g` ORDER BY `x`) [affected partitions]
--         table default.a [source]
-- reads: delta_a, new_a, stored
-- kept: keys
-- few: delta_a, keys
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`g` AS `g`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys AS (
  SELECT DISTINCT
    `g` AS `k_g`
  FROM scan_delta
), scan_new AS (
  SELECT
    `new_a`.`k` AS `k`,
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
), step AS (
  SELECT
    `k`,
    `g`,
    `x`,
    ROW_NUMBER() OVER (PARTITION BY `g` ORDER BY `x`, `k`, `g`, `x`) AS `rownumber`
  FROM scan_new
), come AS (
  SELECT
    `k` AS `k_2`,
    `g` AS `g_2`,
    `x` AS `x_2`,
    `g`
  FROM step
  WHERE
    `rownumber` = 1
), changes AS (
  SELECT
    `stored`.`k` AS `k_2`,
    `stored`.`g` AS `g_2`,
    `stored`.`x` AS `x_2`,
    -1 AS `_w`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_g` IS NOT DISTINCT FROM `stored`.`g`
    )
  UNION ALL
  SELECT
    `k_2`,
    `g_2`,
    `x_2`,
    1 AS `_w`
  FROM come
)
SELECT
  `k_2` AS `k`,
  `g_2` AS `g`,
  `x_2` AS `x`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `g_2`,
  `x_2`
HAVING
  SUM(`_w`) <> 0
