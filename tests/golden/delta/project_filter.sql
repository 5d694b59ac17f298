SELECT k, x + 1 AS z, CASE WHEN x > 1 THEN 'much' ELSE g END AS c
FROM a
WHERE x > 0 AND g IS NOT NULL
-- derived
-- table (bag) [add and remove rows]
--   project k_2, z, c [projection]
--     filter `x` > 0 AND NOT `g` IS NULL [filter]
--       table default.a [source]
-- reads: delta_a
-- kept: nothing
-- few: delta_a
WITH changes AS (
  SELECT
    `delta_a`.`k` AS `k_2`,
    `delta_a`.`x` + 1 AS `z`,
    CASE WHEN `delta_a`.`x` > 1 THEN 'much' ELSE `delta_a`.`g` END AS `c`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
  WHERE
    `delta_a`.`x` > 0 AND NOT `delta_a`.`g` IS NULL
)
SELECT
  `k_2` AS `k`,
  `z`,
  `c`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `z`,
  `c`
HAVING
  SUM(`_w`) <> 0
