SELECT g, count(DISTINCT x) AS n, sum(d) AS t FROM a GROUP BY g HAVING count(*) > 1
-- derived
-- table (keyed by g) [replace touched keys]
--   project g_2, n, t, g [projection]
--     filter `count` > 1 [filter]
--       aggregate COUNT(DISTINCT `x`), SUM(`d`), COUNT(*) by g [affected groups]
--         table default.a [source]
-- reads: delta_a, new_a, stored
-- kept: keys
-- few: delta_a, keys
WITH scan_delta AS (
  SELECT
    `delta_a`.`g` AS `g`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`d` AS `d`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys AS (
  SELECT DISTINCT
    `g` AS `k_g`
  FROM scan_delta
), scan_new AS (
  SELECT
    `new_a`.`g` AS `g`,
    `new_a`.`x` AS `x`,
    `new_a`.`d` AS `d`
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
    `g`,
    COUNT(DISTINCT `x`) AS `count_x`,
    SUM(`d`) AS `sum_d`,
    COUNT(*) AS `count`
  FROM scan_new
  GROUP BY
    `g`
), come AS (
  SELECT
    `g` AS `g_2`,
    `count_x` AS `n`,
    `sum_d` AS `t`,
    `g`
  FROM step
  WHERE
    `count` > 1
), changes AS (
  SELECT
    `stored`.`g` AS `g_2`,
    `stored`.`n` AS `n`,
    `stored`.`t` AS `t`,
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
    `g_2`,
    `n`,
    `t`,
    1 AS `_w`
  FROM come
)
SELECT
  `g_2` AS `g`,
  `n`,
  `t`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `g_2`,
  `n`,
  `t`
HAVING
  SUM(`_w`) <> 0
