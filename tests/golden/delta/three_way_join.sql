SELECT a.k, b.y, c.x
FROM a
JOIN b ON a.k = b.k
JOIN a AS c ON c.x = b.y
-- derived
-- table (bag) [add and remove rows]
--   project k_2, y_2, x_2 [projection]
--     inner join on `c_x` = `y` [join terms]
--       inner join on `k` = `b_k` [join terms]
--         table default.a [source]
--         table default.b [source]
--       table default.a [source]
-- reads: delta_a, delta_b, new_a, new_b, old_a, old_b
-- kept: delta_a
-- few: delta_a, delta_b
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), scan_old AS (
  SELECT
    `old_b`.`k` AS `b_k`,
    `old_b`.`y` AS `y`
  FROM old_b
), scan_new AS (
  SELECT
    `new_a`.`k` AS `k`
  FROM new_a
), scan_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `b_k`,
    `delta_b`.`y` AS `y`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), join_delta AS (
  SELECT
    `k`,
    `b_k`,
    `y`,
    `_w`
  FROM scan_delta
  INNER JOIN scan_old
    ON `k` = `b_k`
  UNION ALL
  SELECT
    `k`,
    `b_k`,
    `y`,
    `_w`
  FROM scan_new
  INNER JOIN scan_delta_2
    ON `k` = `b_k`
), scan_old_2 AS (
  SELECT
    `old_a`.`x` AS `c_x`
  FROM old_a
), scan_delta_3 AS (
  SELECT
    `delta_a`.`x` AS `c_x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys AS (
  SELECT DISTINCT
    `c_x` AS `k_c_x`
  FROM scan_delta_3
), scan_new_2 AS (
  SELECT
    `new_b`.`k` AS `b_k`,
    `new_b`.`y` AS `y`
  FROM new_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_c_x` IS NOT DISTINCT FROM `new_b`.`y`
    )
), join_new AS (
  SELECT
    `k`,
    `b_k`,
    `y`
  FROM scan_new
  INNER JOIN scan_new_2
    ON `k` = `b_k`
), step AS (
  SELECT
    `k`,
    `b_k`,
    `y`,
    `c_x`,
    `_w`
  FROM join_delta
  INNER JOIN scan_old_2
    ON `c_x` = `y`
  UNION ALL
  SELECT
    `k`,
    `b_k`,
    `y`,
    `c_x`,
    `_w`
  FROM join_new
  INNER JOIN scan_delta_3
    ON `c_x` = `y`
), changes AS (
  SELECT
    `k` AS `k_2`,
    `y` AS `y_2`,
    `c_x` AS `x_2`,
    `_w`
  FROM step
)
SELECT
  `k_2` AS `k`,
  `y_2` AS `y`,
  `x_2` AS `x`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `y_2`,
  `x_2`
HAVING
  SUM(`_w`) <> 0
