SELECT k, x FROM a ORDER BY x DESC LIMIT 10
-- derived
-- table (scoped) [replace touched keys]
--   project k_2, x_2 [projection]
--     order by `sort` DESC limit 10 [first rows]
--       project k_2, x_2, sort [projection]
--         table default.a [source]
-- reads: new_a, stored
-- kept: nothing
-- few: 
WITH project_new AS (
  SELECT
    `new_a`.`k` AS `k_2`,
    `new_a`.`x` AS `x_2`,
    `new_a`.`x` AS `sort`
  FROM new_a
), first_rows AS (
  SELECT
    `k_2`,
    `x_2`,
    `sort`
  FROM project_new
  ORDER BY
    `sort` DESC,
    `k_2`,
    `x_2`,
    `sort`
  LIMIT 10
), come AS (
  SELECT
    `k_2`,
    `x_2`
  FROM first_rows
), changes AS (
  SELECT
    `stored`.`k` AS `k_2`,
    `stored`.`x` AS `x_2`,
    -1 AS `_w`
  FROM stored
  UNION ALL
  SELECT
    `k_2`,
    `x_2`,
    1 AS `_w`
  FROM come
)
SELECT
  `k_2` AS `k`,
  `x_2` AS `x`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `x_2`
HAVING
  SUM(`_w`) <> 0
