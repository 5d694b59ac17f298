SELECT k, a.x, b.y FROM a FULL JOIN b USING (k)
-- derived
-- table (bag) [add and remove rows]
--   project k_2, x_2, y_2 [projection]
--     full join on `k` = `b_k` [outer join terms]
--       table default.a [source]
--       table default.b [source]
-- reads: delta_a, delta_b, new_a, new_b, old_a, old_b
-- kept: delta_a, delta_b, touched_2, touched
-- few: delta_a, delta_b
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
), touched_2 AS (
  SELECT
    `b_k`,
    `y`
  FROM scan_old
  WHERE
    EXISTS(
      SELECT
        1
      FROM scan_delta
      WHERE
        `k` = `b_k`
    )
), scan_new AS (
  SELECT
    `new_a`.`k` AS `k`,
    `new_a`.`x` AS `x`
  FROM new_a
), scan_old_2 AS (
  SELECT
    `old_a`.`k` AS `k`,
    `old_a`.`x` AS `x`
  FROM old_a
), unmatched_6 AS (
  SELECT
    `b_k`,
    `y`
  FROM touched_2
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM scan_old_2
      WHERE
        `k` = `b_k`
    )
    AND EXISTS(
      SELECT
        1
      FROM scan_new
      WHERE
        `k` = `b_k`
    )
), unmatched_5 AS (
  SELECT
    `b_k`,
    `y`
  FROM touched_2
  WHERE
    EXISTS(
      SELECT
        1
      FROM scan_old_2
      WHERE
        `k` = `b_k`
    )
    AND NOT EXISTS(
      SELECT
        1
      FROM scan_new
      WHERE
        `k` = `b_k`
    )
), scan_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `b_k`,
    `delta_b`.`y` AS `y`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), unmatched_4 AS (
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
), touched AS (
  SELECT
    `k`,
    `x`
  FROM scan_old_2
  WHERE
    EXISTS(
      SELECT
        1
      FROM scan_delta_2
      WHERE
        `k` = `b_k`
    )
), scan_new_2 AS (
  SELECT
    `new_b`.`k` AS `b_k`,
    `new_b`.`y` AS `y`
  FROM new_b
), unmatched_3 AS (
  SELECT
    `k`,
    `x`
  FROM touched
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM scan_old
      WHERE
        `k` = `b_k`
    )
    AND EXISTS(
      SELECT
        1
      FROM scan_new_2
      WHERE
        `k` = `b_k`
    )
), unmatched_2 AS (
  SELECT
    `k`,
    `x`
  FROM touched
  WHERE
    EXISTS(
      SELECT
        1
      FROM scan_old
      WHERE
        `k` = `b_k`
    )
    AND NOT EXISTS(
      SELECT
        1
      FROM scan_new_2
      WHERE
        `k` = `b_k`
    )
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
    1 AS `_w`
  FROM unmatched_2
  UNION ALL
  SELECT
    `k`,
    `x`,
    NULL AS `b_k`,
    NULL AS `y`,
    -1 AS `_w`
  FROM unmatched_3
  UNION ALL
  SELECT
    NULL AS `k`,
    NULL AS `x`,
    `b_k`,
    `y`,
    `_w`
  FROM unmatched_4
  UNION ALL
  SELECT
    NULL AS `k`,
    NULL AS `x`,
    `b_k`,
    `y`,
    1 AS `_w`
  FROM unmatched_5
  UNION ALL
  SELECT
    NULL AS `k`,
    NULL AS `x`,
    `b_k`,
    `y`,
    -1 AS `_w`
  FROM unmatched_6
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
