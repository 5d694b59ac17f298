SELECT k, x IN (SELECT k FROM b) AS known FROM a
-- derived
-- table (bag) [add and remove rows]
--   project k_3, known [projection]
--     has a partner on `x` = `k_2` [semi-join flips]
--       table default.a [source]
--       project k_2 [projection]
--         table default.b [source]
-- reads: delta_a, delta_b, new_b, old_a, old_b
-- kept: delta_a, touched, flipped_2, flipped
-- few: delta_a, delta_b
WITH scan_old AS (
  SELECT
    `old_a`.`k` AS `k`,
    `old_a`.`x` AS `x`
  FROM old_a
), project_delta AS (
  SELECT
    `delta_b`.`k` AS `k_2`,
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
        `x` = `k_2`
    )
), project_new AS (
  SELECT
    `new_b`.`k` AS `k_2`
  FROM new_b
), project_old AS (
  SELECT
    `old_b`.`k` AS `k_2`
  FROM old_b
), flipped_2 AS (
  SELECT
    `k`,
    `x`
  FROM touched
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_old
      WHERE
        `x` = `k_2`
    )
    AND EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        `x` = `k_2`
    )
), flipped AS (
  SELECT
    `k`,
    `x`
  FROM touched
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_old
      WHERE
        `x` = `k_2`
    )
    AND NOT EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        `x` = `k_2`
    )
), scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), step AS (
  SELECT
    `k`,
    `x`,
    TRUE AS `has`,
    `_w`
  FROM scan_delta
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        `x` = `k_2`
    )
  UNION ALL
  SELECT
    `k`,
    `x`,
    FALSE AS `has`,
    `_w`
  FROM scan_delta
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        `x` = `k_2`
    )
  UNION ALL
  SELECT
    `k`,
    `x`,
    TRUE AS `has`,
    -1 AS `_w`
  FROM flipped
  UNION ALL
  SELECT
    `k`,
    `x`,
    FALSE AS `has`,
    1 AS `_w`
  FROM flipped
  UNION ALL
  SELECT
    `k`,
    `x`,
    FALSE AS `has`,
    -1 AS `_w`
  FROM flipped_2
  UNION ALL
  SELECT
    `k`,
    `x`,
    TRUE AS `has`,
    1 AS `_w`
  FROM flipped_2
), changes AS (
  SELECT
    `k` AS `k_3`,
    `has` AS `known`,
    `_w`
  FROM step
)
SELECT
  `k_3` AS `k`,
  `known`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_3`,
  `known`
HAVING
  SUM(`_w`) <> 0
