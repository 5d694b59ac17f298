SELECT k, sum(x) OVER (PARTITION BY g ORDER BY k) AS t FROM a
-- derived
-- table (scoped by _neve_g, also keeps _neve_g) [replace touched keys]
--   project k_2, t, g [projection]
--     window SUM(`x`) OVER (PARTITION BY `g` ORDER BY `k`) [affected partitions]
--       table default.a [source]
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
    SUM(`x`) OVER (PARTITION BY `g` ORDER BY `k`) AS `sum`
  FROM scan_new
), come AS (
  SELECT
    `k` AS `k_2`,
    `sum` AS `t`,
    `g`
  FROM step
), changes AS (
  SELECT
    `stored`.`k` AS `k_2`,
    `stored`.`t` AS `t`,
    `stored`.`_neve_g` AS `g`,
    -1 AS `_w`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_g` IS NOT DISTINCT FROM `stored`.`_neve_g`
    )
  UNION ALL
  SELECT
    `k_2`,
    `t`,
    `g`,
    1 AS `_w`
  FROM come
)
SELECT
  `k_2` AS `k`,
  `t`,
  `g` AS `_neve_g`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `t`,
  `g`
HAVING
  SUM(`_w`) <> 0
