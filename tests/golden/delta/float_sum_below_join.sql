SELECT b.y, t.s
FROM b
JOIN (SELECT k, sum(d) AS s FROM a GROUP BY k) t ON t.k = b.k
-- derived
-- table (scoped by y) [replace touched rows]
--   project y_2, s_2 [projection]
--     inner join on `k_2` = `k` [join terms]
--       table default.b [source]
--       project k_2, s [projection]
--         aggregate SUM(`d`) by a_k [affected groups]
--           table default.a [source]
-- reads: delta_a, delta_b, new_a, new_b, old_a, stored
-- kept: delta_b, keys, keys_3
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
    `old_a`.`k` AS `a_k`,
    `old_a`.`d` AS `d`
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
    SUM(`d`) AS `sum_d`
  FROM scan_old_2
  GROUP BY
    `a_k`
), project_old AS (
  SELECT
    `a_k` AS `k_2`,
    `sum_d` AS `s`
  FROM step_2
), scan_new_2 AS (
  SELECT
    `new_b`.`k` AS `k`,
    `new_b`.`y` AS `y`
  FROM new_b
), scan_delta_2 AS (
  SELECT
    `delta_a`.`k` AS `a_k`,
    `delta_a`.`d` AS `d`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys AS (
  SELECT DISTINCT
    `a_k` AS `k_a_k`
  FROM scan_delta_2
), scan_old AS (
  SELECT
    `old_a`.`k` AS `a_k`,
    `old_a`.`d` AS `d`
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
    `new_a`.`k` AS `a_k`,
    `new_a`.`d` AS `d`
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
    SUM(`d`) AS `sum_d`,
    -1 AS `_w`
  FROM scan_old
  GROUP BY
    `a_k`
  UNION ALL
  SELECT
    `a_k`,
    SUM(`d`) AS `sum_d`,
    1 AS `_w`
  FROM scan_new
  GROUP BY
    `a_k`
), project_delta AS (
  SELECT
    `a_k` AS `k_2`,
    `sum_d` AS `s`,
    `_w`
  FROM step
), project_delta_net AS (
  SELECT
    `k_2`,
    `s`,
    SUM(`_w`) AS `_w`
  FROM project_delta
  GROUP BY
    `k_2`,
    `s`
  HAVING
    SUM(`_w`) <> 0
), step_3 AS (
  SELECT
    `k`,
    `y`,
    `k_2`,
    `s`,
    `_w`
  FROM scan_delta
  INNER JOIN project_old
    ON `k_2` = `k`
  UNION ALL
  SELECT
    `k`,
    `y`,
    `k_2`,
    `s`,
    `_w`
  FROM scan_new_2
  INNER JOIN project_delta_net
    ON `k_2` = `k`
), project_delta_2 AS (
  SELECT
    `y` AS `y_2`,
    `s` AS `s_2`,
    `_w`
  FROM step_3
), keys_3 AS (
  SELECT DISTINCT
    `y_2` AS `k_y_2`
  FROM project_delta_2
), scan_new_3 AS (
  SELECT
    `new_b`.`k` AS `k`,
    `new_b`.`y` AS `y`
  FROM new_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_3
      WHERE
        `k_y_2` IS NOT DISTINCT FROM `new_b`.`y`
    )
), scan_new_4 AS (
  SELECT
    `new_a`.`k` AS `a_k`,
    `new_a`.`d` AS `d`
  FROM new_a
), step_4 AS (
  SELECT
    `a_k`,
    SUM(`d`) AS `sum_d`
  FROM scan_new_4
  GROUP BY
    `a_k`
), project_new AS (
  SELECT
    `a_k` AS `k_2`,
    `sum_d` AS `s`
  FROM step_4
), step_5 AS (
  SELECT
    `k`,
    `y`,
    `k_2`,
    `s`
  FROM scan_new_3
  INNER JOIN project_new
    ON `k_2` = `k`
), come AS (
  SELECT
    `y` AS `y_2`,
    `s` AS `s_2`
  FROM step_5
), changes AS (
  SELECT
    `stored`.`y` AS `y_2`,
    `stored`.`s` AS `s_2`,
    -1 AS `_w`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_3
      WHERE
        `k_y_2` IS NOT DISTINCT FROM `stored`.`y`
    )
  UNION ALL
  SELECT
    `y_2`,
    `s_2`,
    1 AS `_w`
  FROM come
)
SELECT
  `y_2` AS `y`,
  `s_2` AS `s`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `y_2`,
  `s_2`
HAVING
  SUM(`_w`) <> 0
