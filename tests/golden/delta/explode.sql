SELECT k, e FROM a LATERAL VIEW OUTER explode(l) v AS e
-- derived
-- table (bag) [add and remove rows]
--   project k_2, e_2 [projection]
--     generate EXPLODE(`l`) [generator]
--       table default.a [source]
-- reads: delta_a
-- kept: nothing
-- few: delta_a
WITH generate_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`l` AS `l`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), step AS (
  SELECT
    `k`,
    `l`,
    `e`,
    `_w`
  FROM generate_delta
  LATERAL VIEW OUTER
  EXPLODE(`l`) made AS `e`
), changes AS (
  SELECT
    `k` AS `k_2`,
    `e` AS `e_2`,
    `_w`
  FROM step
)
SELECT
  `k_2` AS `k`,
  `e_2` AS `e`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `e_2`
HAVING
  SUM(`_w`) <> 0
