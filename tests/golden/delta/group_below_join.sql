SELECT b.y, t.n
FROM b
JOIN (SELECT k, count(*) AS n FROM a GROUP BY k) t ON t.k = b.k
-- derived
-- table (bag) [add and remove rows]
--   project y_2, n_2 [projection]
--     inner join on `k_2` = `k` [join terms]
--       table default.b [source]
--       project k_2, n [projection]
--         aggregate COUNT(*) by a_k [affected groups]
--           table default.a [source]
-- reads: delta_a, delta_b, new_a, new_b, old_a
-- kept: delta_b, keys
-- few: delta_a, delta_b, keys, step
WITH scan_delta AS (
  SELECT
    `delta_b`.`k` AS `k`,
    `delta_b`.`y` AS `y`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), keys_2 AS (
  SELECT DISTINCT
    `k` AS `k_k`
  FROM scan_delta
), scan_old_2 AS (
  SELECT
    `old_a`.`k` AS `a_k`
  FROM old_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_2
      WHERE
        `k_k` IS NOT DISTINCT FROM `old_a`.`k`
    )
), step_2 AS (
  SELECT
    `a_k`,
    COUNT(*) AS `count`
  FROM scan_old_2
  GROUP BY
    `a_k`
), project_old AS (
  SELECT
    `a_k` AS `k_2`,
    `count` AS `n`
  FROM step_2
), scan_new_2 AS (
  SELECT
    `new_b`.`k` AS `k`,
    `new_b`.`y` AS `y`
  FROM new_b
), scan_delta_2 AS (
  SELECT
    `delta_a`.`k` AS `a_k`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys AS (
  SELECT DISTINCT
    `a_k` AS `k_a_k`
  FROM scan_delta_2
), scan_old AS (
  SELECT
    `old_a`.`k` AS `a_k`
  FROM old_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_a_k` IS NOT DISTINCT FROM `old_a`.`k`
    )
), scan_new AS (
  SELECT
    `new_a`.`k` AS `a_k`
  FROM new_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_a_k` IS NOT DISTINCT FROM `new_a`.`k`
    )
), step AS (
  SELECT
    `a_k`,
    COUNT(*) AS `count`,
    -1 AS `_w`
  FROM scan_old
  GROUP BY
    `a_k`
  UNION ALL
  SELECT
    `a_k`,
    COUNT(*) AS `count`,
    1 AS `_w`
  FROM scan_new
  GROUP BY
    `a_k`
), project_delta AS (
  SELECT
    `a_k` AS `k_2`,
    `count` AS `n`,
    `_w`
  FROM step
), project_delta_net AS (
  SELECT
    `k_2`,
    `n`,
    SUM(`_w`) AS `_w`
  FROM project_delta
  GROUP BY
    `k_2`,
    `n`
  HAVING
    SUM(`_w`) <> 0
), step_3 AS (
  SELECT
    `k`,
    `y`,
    `k_2`,
    `n`,
    `_w`
  FROM scan_delta
  INNER JOIN project_old
    ON `k_2` = `k`
  UNION ALL
  SELECT
    `k`,
    `y`,
    `k_2`,
    `n`,
    `_w`
  FROM scan_new_2
  INNER JOIN project_delta_net
    ON `k_2` = `k`
), changes AS (
  SELECT
    `y` AS `y_2`,
    `n` AS `n_2`,
    `_w`
  FROM step_3
)
SELECT
  `y_2` AS `y`,
  `n_2` AS `n`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `y_2`,
  `n_2`
HAVING
  SUM(`_w`) <> 0
