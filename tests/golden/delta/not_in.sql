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
-- kept: delta_b, touched_3, touched_2, touched
-- few: delta_a, delta_b
WITH scan_old AS (
  SELECT
    `old_a`.`x` AS `x`
  FROM old_a
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
), project_old_2 AS (
  SELECT
    `old_b`.`k` AS `k_3`
  FROM old_b
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
), touched_3 AS (
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
), project_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `k_3`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), touched_2 AS (
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
), project_delta AS (
  SELECT
    `delta_b`.`k` AS `k_2`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), touched AS (
  SELECT
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
), scan_delta AS (
  SELECT
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
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
    1 AS `_w`
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
  UNION ALL
  SELECT
    `x`,
    -1 AS `_w`
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
), project_new_2 AS (
  SELECT
    `new_b`.`k` AS `k_3`
  FROM new_b
), semi_delta_2 AS (
  SELECT
    `x`,
    `_w`
  FROM semi_delta
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_new_2
      WHERE
        `k_3` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    1 AS `_w`
  FROM touched_2
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
      FROM project_new_2
      WHERE
        `k_3` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    -1 AS `_w`
  FROM touched_2
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
      FROM project_new_2
      WHERE
        `k_3` IS NULL
    )
), step AS (
  SELECT
    1 AS `_one`
  FROM new_b
), project_new_3 AS (
  SELECT
    1 AS `_one`
  FROM step
), step_2 AS (
  SELECT
    1 AS `_one`
  FROM old_b
), project_old_3 AS (
  SELECT
    1 AS `_one`
  FROM step_2
), step_3 AS (
  SELECT
    `x`,
    `_w`
  FROM semi_delta_2
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_new_3
      WHERE
        `x` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    1 AS `_w`
  FROM touched_3
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
      FROM project_new_3
      WHERE
        `x` IS NULL
    )
  UNION ALL
  SELECT
    `x`,
    -1 AS `_w`
  FROM touched_3
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
      FROM project_new_3
      WHERE
        `x` IS NULL
    )
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
