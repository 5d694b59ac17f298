SELECT k, (SELECT max(y) FROM b) AS top FROM a
-- derived
-- table (bag) [add and remove rows]
--   project k_2, top [projection]
--     left join [outer join terms]
--       table default.a [source]
--       project max(y) [projection]
--         aggregate MAX(`y`) [affected groups]
--           table default.b [source]
-- reads: delta_a, new_a, new_b, old_a, old_b
-- kept: delta_a
-- few: delta_a
WITH scan_old_2 AS (
  SELECT
    `old_a`.`k` AS `k`
  FROM old_a
), scan_old AS (
  SELECT
    `old_b`.`y` AS `y`
  FROM old_b
), scan_new AS (
  SELECT
    `new_b`.`y` AS `y`
  FROM new_b
), step AS (
  SELECT
    MAX(`y`) AS `max_y`,
    -1 AS `_w`
  FROM scan_old
  UNION ALL
  SELECT
    MAX(`y`) AS `max_y`,
    1 AS `_w`
  FROM scan_new
), project_delta AS (
  SELECT
    `max_y` AS `max(y)`,
    `_w`
  FROM step
), project_delta_net AS (
  SELECT
    `max(y)`,
    SUM(`_w`) AS `_w`
  FROM project_delta
  GROUP BY
    `max(y)`
  HAVING
    SUM(`_w`) <> 0
), touched AS (
  SELECT
    `k`
  FROM scan_old_2
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_delta_net
      WHERE
        TRUE
    )
), step_2 AS (
  SELECT
    MAX(`y`) AS `max_y`
  FROM scan_old
), project_old AS (
  SELECT
    `max_y` AS `max(y)`
  FROM step_2
), step_3 AS (
  SELECT
    MAX(`y`) AS `max_y`
  FROM scan_new
), project_new AS (
  SELECT
    `max_y` AS `max(y)`
  FROM step_3
), flipped AS (
  SELECT
    `k`,
    TRUE AS `had`
  FROM touched
  WHERE
    EXISTS(
      SELECT
        1
      FROM project_old
      WHERE
        TRUE
    )
    AND NOT EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        TRUE
    )
  UNION ALL
  SELECT
    `k`,
    FALSE AS `had`
  FROM touched
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_old
      WHERE
        TRUE
    )
    AND EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        TRUE
    )
), unmatched_2 AS (
  SELECT
    `k`,
    CASE WHEN `had` THEN 1 ELSE -1 END AS `_w`
  FROM flipped
), scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), unmatched AS (
  SELECT
    `k`,
    `_w`
  FROM scan_delta
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM project_new
      WHERE
        TRUE
    )
), scan_new_2 AS (
  SELECT
    `new_a`.`k` AS `k`
  FROM new_a
), step_4 AS (
  SELECT
    `k`,
    `max(y)`,
    `_w`
  FROM scan_delta
  INNER JOIN project_old
    ON TRUE
  UNION ALL
  SELECT
    `k`,
    `max(y)`,
    `_w`
  FROM scan_new_2
  INNER JOIN project_delta_net
    ON TRUE
  UNION ALL
  SELECT
    `k`,
    NULL AS `max(y)`,
    `_w`
  FROM unmatched
  UNION ALL
  SELECT
    `k`,
    NULL AS `max(y)`,
    `_w`
  FROM unmatched_2
), changes AS (
  SELECT
    `k` AS `k_2`,
    `max(y)` AS `top`,
    `_w`
  FROM step_4
)
SELECT
  `k_2` AS `k`,
  `top`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `top`
HAVING
  SUM(`_w`) <> 0
