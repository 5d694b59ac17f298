SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.x)
-- derived
-- table (bag) [add and remove rows]
--   project k_2 [projection]
--     semi-join on `b_k` = `k` AND `y` > `x` [semi-join flips]
--       table default.a [source]
--       project b_k, y [projection]
--         table default.b [source]
-- reads: delta_a, delta_b, new_b, old_a, old_b
-- kept: touched
-- few: delta_a, delta_b
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), scan_old AS (
  SELECT
    `old_a`.`k` AS `k`,
    `old_a`.`x` AS `x`
  FROM old_a
), project_delta AS (
  SELECT
    `delta_b`.`k` AS `b_k`,
    `delta_b`.`y` AS `y`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), touched AS (
  SELECT
    `k`,
    `x`
  FROM scan_old
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_delta
      WHERE
        `b_k` = `k` AND `y` > `x`
    )
), project_old AS (
  SELECT
    `old_b`.`k` AS `b_k`,
    `old_b`.`y` AS `y`
  FROM old_b
), project_new AS (
  SELECT
    `new_b`.`k` AS `b_k`,
    `new_b`.`y` AS `y`
  FROM new_b
), flipped AS (
  SELECT
    `k`,
    `x`,
    TRUE AS `had`
  FROM touched
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_old
      WHERE
        `b_k` = `k` AND `y` > `x`
    )
    AND NOT EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        `b_k` = `k` AND `y` > `x`
    )
  UNION ALL
  SELECT
    `k`,
    `x`,
    FALSE AS `had`
  FROM touched
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_old
      WHERE
        `b_k` = `k` AND `y` > `x`
    )
    AND EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        `b_k` = `k` AND `y` > `x`
    )
), step AS (
  SELECT
    `k`,
    `x`,
    `_w`
  FROM scan_delta
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        `b_k` = `k` AND `y` > `x`
    )
  UNION ALL
  SELECT
    `k`,
    `x`,
    CASE WHEN `had` THEN -1 ELSE 1 END AS `_w`
  FROM flipped
), changes AS (
  SELECT
    `k` AS `k_2`,
    `_w`
  FROM step
)
SELECT
  `k_2` AS `k`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`
HAVING
  SUM(`_w`) <> 0
