SELECT k, a.x, b.y FROM a FULL JOIN b USING (k)
-- derived
-- table (bag) [add and remove rows]
--   project k_2, x_2, y_2 [projection]
--     full join on `k` = `b_k` [outer join terms]
--       table default.a [source]
--       table default.b [source]
-- reads: delta_a, delta_b, new_a, new_b, old_a, old_b
-- kept: delta_a, delta_b
-- few: delta_a, delta_b, turned_2, turned
WITH scan_old AS (
  SELECT
    `old_b`.`k` AS `b_k`,
    `old_b`.`y` AS `y`
  FROM old_b
), scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys_2 AS (
  SELECT DISTINCT
    `k` AS `k_k`
  FROM scan_delta
), scan_new_4 AS (
  SELECT
    `new_a`.`k` AS `k`,
    `new_a`.`x` AS `x`
  FROM new_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_2
      WHERE
        `k_k` IS NOT DISTINCT FROM `new_a`.`k`
    )
), partners_2 AS (
  SELECT
    `k` AS `k_k`,
    1 AS `now_2`,
    0 AS `came_2`
  FROM scan_new_4
  UNION ALL
  SELECT
    `k` AS `k_k`,
    0 AS `now_2`,
    `_w` AS `came_2`
  FROM scan_delta
), turned_2 AS (
  SELECT
    `k_k`,
    SUM(`now_2`) - SUM(`came_2`) > 0 AS `had_2`
  FROM partners_2
  GROUP BY
    `k_k`
  HAVING
    (
      SUM(`now_2`) - SUM(`came_2`) > 0
    ) <> (
      SUM(`now_2`) > 0
    )
), flipped_2 AS (
  SELECT
    `b_k`,
    `y`,
    `had_2`
  FROM scan_old
  JOIN turned_2
    ON `b_k` = `k_k`
), unmatched_4 AS (
  SELECT
    `b_k`,
    `y`,
    CASE WHEN `had_2` THEN 1 ELSE -1 END AS `_w`
  FROM flipped_2
), scan_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `b_k`,
    `delta_b`.`y` AS `y`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), scan_new AS (
  SELECT
    `new_a`.`k` AS `k`,
    `new_a`.`x` AS `x`
  FROM new_a
), unmatched_3 AS (
  SELECT
    `b_k`,
    `y`,
    `_w`
  FROM scan_delta_2
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM scan_new
      WHERE
        `k` = `b_k`
    )
), scan_old_2 AS (
  SELECT
    `old_a`.`k` AS `k`,
    `old_a`.`x` AS `x`
  FROM old_a
), keys AS (
  SELECT DISTINCT
    `b_k` AS `k_b_k`
  FROM scan_delta_2
), scan_new_3 AS (
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
        `k_b_k` IS NOT DISTINCT FROM `new_b`.`k`
    )
), partners AS (
  SELECT
    `b_k` AS `k_b_k`,
    1 AS `now`,
    0 AS `came`
  FROM scan_new_3
  UNION ALL
  SELECT
    `b_k` AS `k_b_k`,
    0 AS `now`,
    `_w` AS `came`
  FROM scan_delta_2
), turned AS (
  SELECT
    `k_b_k`,
    SUM(`now`) - SUM(`came`) > 0 AS `had`
  FROM partners
  GROUP BY
    `k_b_k`
  HAVING
    (
      SUM(`now`) - SUM(`came`) > 0
    ) <> (
      SUM(`now`) > 0
    )
), flipped AS (
  SELECT
    `k`,
    `x`,
    `had`
  FROM scan_old_2
  JOIN turned
    ON `k` = `k_b_k`
), unmatched_2 AS (
  SELECT
    `k`,
    `x`,
    CASE WHEN `had` THEN 1 ELSE -1 END AS `_w`
  FROM flipped
), scan_new_2 AS (
  SELECT
    `new_b`.`k` AS `b_k`,
    `new_b`.`y` AS `y`
  FROM new_b
), unmatched AS (
  SELECT
    `k`,
    `x`,
    `_w`
  FROM scan_delta
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM scan_new_2
      WHERE
        `k` = `b_k`
    )
), step AS (
  SELECT
    `k`,
    `x`,
    `b_k`,
    `y`,
    `_w`
  FROM scan_delta
  INNER JOIN scan_old
    ON `k` = `b_k`
  UNION ALL
  SELECT
    `k`,
    `x`,
    `b_k`,
    `y`,
    `_w`
  FROM scan_new
  INNER JOIN scan_delta_2
    ON `k` = `b_k`
  UNION ALL
  SELECT
    `k`,
    `x`,
    NULL AS `b_k`,
    NULL AS `y`,
    `_w`
  FROM unmatched
  UNION ALL
  SELECT
    `k`,
    `x`,
    NULL AS `b_k`,
    NULL AS `y`,
    `_w`
  FROM unmatched_2
  UNION ALL
  SELECT
    NULL AS `k`,
    NULL AS `x`,
    `b_k`,
    `y`,
    `_w`
  FROM unmatched_3
  UNION ALL
  SELECT
    NULL AS `k`,
    NULL AS `x`,
    `b_k`,
    `y`,
    `_w`
  FROM unmatched_4
), changes AS (
  SELECT
    COALESCE(`k`, `b_k`) AS `k_2`,
    `x` AS `x_2`,
    `y` AS `y_2`,
    `_w`
  FROM step
)
SELECT
  `k_2` AS `k`,
  `x_2` AS `x`,
  `y_2` AS `y`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `x_2`,
  `y_2`
HAVING
  SUM(`_w`) <> 0
