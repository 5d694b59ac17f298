SELECT a.k, v.n FROM a JOIN VALUES (1, 'one'), (2, 'two') AS v(k, n) ON a.k = v.k
-- derived
-- table (bag) [add and remove rows]
--   project k_2, n [projection]
--     inner join on `k` = `col1` [join terms]
--       table default.a [source]
--       2 constant rows [constant]
-- reads: delta_a
-- kept: nothing
-- few: delta_a
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), constant_new AS (
  SELECT
    `col1`,
    `col2`
  FROM VALUES
    (1, 'one'),
    (2, 'two') AS v(`col1`, `col2`)
), step AS (
  SELECT
    `k`,
    `col1`,
    `col2`,
    `_w`
  FROM scan_delta
  INNER JOIN constant_new
    ON `k` = `col1`
), changes AS (
  SELECT
    `k` AS `k_2`,
    `col2` AS `n`,
    `_w`
  FROM step
)
SELECT
  `k_2` AS `k`,
  `n`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_2`,
  `n`
HAVING
  SUM(`_w`) <> 0
