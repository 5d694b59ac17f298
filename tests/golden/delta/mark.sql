SELECT k, x IN (SELECT k FROM b) AS known FROM a
-- derived
-- table (bag) [add and remove rows]
--   project k_3, known [projection]
--     has a partner on `x` = `k_2` [semi-join flips]
--       table default.a [source]
--       project k_2 [projection]
--         table default.b [source]
-- reads: delta_a, delta_b, new_b, old_a
-- kept: delta_a, delta_b, flipped
-- few: delta_a, delta_b, turned
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
), keys AS (
  SELECT DISTINCT
    `k_2` AS `k_k_2`
  FROM project_delta
), project_new_2 AS (
  SELECT
    `new_b`.`k` AS `k_2`
  FROM new_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_k_2` IS NOT DISTINCT FROM `new_b`.`k`
    )
), partners AS (
  SELECT
    `k_2` AS `k_k_2`,
    1 AS `now`,
    0 AS `came`
  FROM project_new_2
  UNION ALL
  SELECT
    `k_2` AS `k_k_2`,
    0 AS `now`,
    `_w` AS `came`
  FROM project_delta
), turned AS (
  SELECT
    `k_k_2`,
    SUM(`now`) - SUM(`came`) > 0 AS `had`
  FROM partners
  GROUP BY
    `k_k_2`
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
  FROM scan_old
  JOIN turned
    ON `x` = `k_k_2`
), scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), project_new AS (
  SELECT
    `new_b`.`k` AS `k_2`
  FROM new_b
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
    `had` AS `has`,
    -1 AS `_w`
  FROM flipped
  UNION ALL
  SELECT
    `k`,
    `x`,
    NOT `had` AS `has`,
    1 AS `_w`
  FROM flipped
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
