SELECT k FROM a UNION ALL SELECT k FROM b
-- derived
-- table (bag) [add and remove rows]
--   union all [union]
--     project k_2 [projection]
--       table default.a [source]
--     project k_3 [projection]
--       table default.b [source]
-- reads: delta_a, delta_b
-- kept: nothing
-- few: delta_a, delta_b, changes
WITH changes AS (
  SELECT
    `delta_a`.`k` AS `k_4`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
  UNION ALL
  SELECT
    `delta_b`.`k` AS `k_4`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
)
SELECT
  `k_4` AS `k`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_4`
HAVING
  SUM(`_w`) <> 0
