SELECT k FROM a INTERSECT SELECT k FROM b
-- derived
-- table (keyed by k) [replace touched keys]
--   intersect [affected rows]
--     project k_2 [projection]
--       table default.a [source]
--     project k_3 [projection]
--       table default.b [source]
-- reads: delta_a, delta_b, new_a, new_b, stored
-- kept: keys
-- few: delta_a, delta_b, both, keys
WITH project_delta AS (
  SELECT
    `delta_a`.`k` AS `k_2`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), project_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `k_3`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), both AS (
  SELECT
    `k_2` AS `k_4`,
    `_w`
  FROM project_delta
  UNION ALL
  SELECT
    `k_3` AS `k_4`,
    `_w`
  FROM project_delta_2
), keys AS (
  SELECT DISTINCT
    `k_4` AS `k_k_4`
  FROM both
), side AS (
  SELECT
    `new_a`.`k` AS `k_4`
  FROM new_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_k_4` IS NOT DISTINCT FROM `new_a`.`k`
    )
), side_2 AS (
  SELECT
    `new_b`.`k` AS `k_4`
  FROM new_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_k_4` IS NOT DISTINCT FROM `new_b`.`k`
    )
), compare_rows AS (
  SELECT
    `k_4`
  FROM side
  INTERSECT
  SELECT
    `k_4`
  FROM side_2
), come AS (
  SELECT
    `k_4`
  FROM compare_rows
), changes AS (
  SELECT
    `stored`.`k` AS `k_4`,
    -1 AS `_w`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_k_4` IS NOT DISTINCT FROM `stored`.`k`
    )
  UNION ALL
  SELECT
    `k_4`,
    1 AS `_w`
  FROM come
)
SELECT
  `k_4` AS `k`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_4`
HAVING
  SUM(`_w`) <> 0
