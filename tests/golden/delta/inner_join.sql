SELECT a.k, b.y
FROM a
JOIN b ON a.k = b.k AND a.x > b.y
-- derived
-- table (bag) [add and remove rows]
--   project k_2, y_2 [projection]
--     inner join on `k` = `b_k` AND `x` > `y` [join terms]
--       table default.a [source]
--       table default.b [source]
-- reads: delta_a, delta_b, new_a, old_b
-- kept: nothing
-- few: delta_a, delta_b
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), scan_old AS (
  SELECT
    `old_b`.`k` AS `b_k`,
    `old_b`.`y` AS `y`
  FROM old_b
), scan_new AS (
  SELECT
    `new_a`.`k` AS `k`,
    `new_a`.`x` AS `x`
  FROM new_a
), scan_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `b_k`,
    `delta_b`.`y` AS `y`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), step AS (
  SELECT
    `k`,
    `x`,
    `b_k`,
    `y`,
    `_w`
  FROM scan_delta
  INNER JOIN scan_old
    ON `k` = `b_k` AND `x` > `y`
  UNION ALL
  SELECT
    `k`,
    `x`,
    `b_k`,
    `y`,
    `_w`
  FROM scan_new
  INNER JOIN scan_delta_2
    ON `k` = `b_k` AND `x` > `y`
), changes AS (
  SELECT
    `k` AS `k_2`,
    `y` AS `y_2`,
    `_w`
  FROM step
)
SELECT
  `k_2` AS `k`,
  `y_2` AS `y`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `y_2`
HAVING
  SUM(`_w`) <> 0
