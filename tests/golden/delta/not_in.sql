SELECT x FROM a WHERE x NOT IN (SELECT k FROM b)
-- derived
-- table (bag) [add and remove rows]
--   project x_2 [projection]
--     anti-join on `x` IS NULL [anti-join flips]
--       anti-join on `k_3` IS NULL [anti-join flips]
--         anti-join on `x` = `k_2` [anti-join flips]
--           table default.a [source]
--           project k_2 [projection]
--             table default.b [source]
--         project k_3 [projection]
--           table default.b [source]
--       project  [projection]
--         table default.b [source]
-- reads: delta_a, delta_b, new_b, old_a, old_b
-- kept: delta_b, touched, touched_2
-- few: delta_a, delta_b, turned
WITH scan_delta AS (
  SELECT
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), scan_old AS (
  SELECT
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
    `x`,
    `had`
  FROM scan_old
  JOIN turned
    ON `x` = `k_k_2`
), project_new AS (
  SELECT
    `new_b`.`k` AS `k_2`
  FROM new_b
), semi_delta AS (
  SELECT
    `x`,
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
    `x`,
    CASE WHEN `had` THEN 1 ELSE -1 END AS `_w`
  FROM flipped
), project_old AS (
  SELECT
    `old_b`.`k` AS `k_2`
  FROM old_b
), semi_old AS (
  SELECT
    `x`
  FROM scan_old
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_old
      WHERE
        `x` = `k_2`
    )
), project_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `k_3`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), touched AS (
  SELECT
    `x`
  FROM semi_old
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_delta_2
      WHERE
        `k_3` IS NULL
    )
), project_old_2 AS (
  SELECT
    `old_b`.`k` AS `k_3`
  FROM old_b
), project_new_3 AS (
  SELECT
    `new_b`.`k` AS `k_3`
  FROM new_b
), flipped_2 AS (
  SELECT
    `x`,
    TRUE AS `had_2`
  FROM touched
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_old_2
      WHERE
        `k_3` IS NULL
    )
    AND NOT EXISTS(
      SELECT
        1
      FROM project_new_3
      WHERE
        `k_3` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    FALSE AS `had_2`
  FROM touched
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_old_2
      WHERE
        `k_3` IS NULL
    )
    AND EXISTS(
      SELECT
        1
      FROM project_new_3
      WHERE
        `k_3` IS NULL
    )
), semi_delta_2 AS (
  SELECT
    `x`,
    `_w`
  FROM semi_delta
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_new_3
      WHERE
        `k_3` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    CASE WHEN `had_2` THEN 1 ELSE -1 END AS `_w`
  FROM flipped_2
), semi_old_2 AS (
  SELECT
    `x`
  FROM semi_old
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_old_2
      WHERE
        `k_3` IS NULL
    )
), project_delta_3 AS (
  SELECT
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), touched_2 AS (
  SELECT
    `x`
  FROM semi_old_2
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_delta_3
      WHERE
        `x` IS NULL
    )
), step_2 AS (
  SELECT
    1 AS `_one`
  FROM old_b
), project_old_3 AS (
  SELECT
    1 AS `_one`
  FROM step_2
), step AS (
  SELECT
    1 AS `_one`
  FROM new_b
), project_new_4 AS (
  SELECT
    1 AS `_one`
  FROM step
), flipped_3 AS (
  SELECT
    `x`,
    TRUE AS `had_3`
  FROM touched_2
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_old_3
      WHERE
        `x` IS NULL
    )
    AND NOT EXISTS(
      SELECT
        1
      FROM project_new_4
      WHERE
        `x` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    FALSE AS `had_3`
  FROM touched_2
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_old_3
      WHERE
        `x` IS NULL
    )
    AND EXISTS(
      SELECT
        1
      FROM project_new_4
      WHERE
        `x` IS NULL
    )
), step_3 AS (
  SELECT
    `x`,
    `_w`
  FROM semi_delta_2
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_new_4
      WHERE
        `x` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    CASE WHEN `had_3` THEN 1 ELSE -1 END AS `_w`
  FROM flipped_3
), changes AS (
  SELECT
    `x` AS `x_2`,
    `_w`
  FROM step_3
)
SELECT
  `x_2` AS `x`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `x_2`
HAVING
  SUM(`_w`) <> 0
