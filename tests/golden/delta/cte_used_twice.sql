WITH t AS (SELECT k, sum(x) AS s FROM a GROUP BY k)
SELECT p.k, q.s FROM t p JOIN t q ON p.s = q.k
-- derived
-- table (bag) [add and remove rows]
--   project k_4, s_3 [projection]
--     inner join on `s` = `k_3` [join terms]
--       project k_2, s [projection]
--         aggregate SUM(`x`) by k [affected groups]
--           table default.a [source]
--       project k_3, s_2 [projection]
--         aggregate SUM(`a_x`) by a_k [affected groups]
--           table default.a [source]
-- reads: delta_a, new_a, old_a
-- kept: delta_a, keys, project_delta_net, keys_2, project_delta_2_net
-- few: delta_a, keys, step, project_delta_net, keys_2, step_2, project_delta_2_net
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys AS (
  SELECT DISTINCT
    `k` AS `k_k`
  FROM scan_delta
), scan_old AS (
  SELECT
    `old_a`.`k` AS `k`,
    `old_a`.`x` AS `x`
  FROM old_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_k` IS NOT DISTINCT FROM `old_a`.`k`
    )
), scan_new AS (
  SELECT
    `new_a`.`k` AS `k`,
    `new_a`.`x` AS `x`
  FROM new_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_k` IS NOT DISTINCT FROM `new_a`.`k`
    )
), step AS (
  SELECT
    `k`,
    SUM(`x`) AS `sum_x`,
    -1 AS `_w`
  FROM scan_old
  GROUP BY
    `k`
  UNION ALL
  SELECT
    `k`,
    SUM(`x`) AS `sum_x`,
    1 AS `_w`
  FROM scan_new
  GROUP BY
    `k`
), project_delta AS (
  SELECT
    `k` AS `k_2`,
    `sum_x` AS `s`,
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
), keys_3 AS (
  SELECT DISTINCT
    `s` AS `k_s`
  FROM project_delta_net
), scan_old_3 AS (
  SELECT
    `old_a`.`k` AS `a_k`,
    `old_a`.`x` AS `a_x`
  FROM old_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_3
      WHERE
        `k_s` IS NOT DISTINCT FROM `old_a`.`k`
    )
), step_3 AS (
  SELECT
    `a_k`,
    SUM(`a_x`) AS `sum_a_x`
  FROM scan_old_3
  GROUP BY
    `a_k`
), project_old AS (
  SELECT
    `a_k` AS `k_3`,
    `sum_a_x` AS `s_2`
  FROM step_3
), scan_new_3 AS (
  SELECT
    `new_a`.`k` AS `k`,
    `new_a`.`x` AS `x`
  FROM new_a
), step_4 AS (
  SELECT
    `k`,
    SUM(`x`) AS `sum_x`
  FROM scan_new_3
  GROUP BY
    `k`
), scan_delta_2 AS (
  SELECT
    `delta_a`.`k` AS `a_k`,
    `delta_a`.`x` AS `a_x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), keys_2 AS (
  SELECT DISTINCT
    `a_k` AS `k_a_k`
  FROM scan_delta_2
), scan_old_2 AS (
  SELECT
    `old_a`.`k` AS `a_k`,
    `old_a`.`x` AS `a_x`
  FROM old_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_2
      WHERE
        `k_a_k` IS NOT DISTINCT FROM `old_a`.`k`
    )
), scan_new_2 AS (
  SELECT
    `new_a`.`k` AS `a_k`,
    `new_a`.`x` AS `a_x`
  FROM new_a
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_2
      WHERE
        `k_a_k` IS NOT DISTINCT FROM `new_a`.`k`
    )
), step_2 AS (
  SELECT
    `a_k`,
    SUM(`a_x`) AS `sum_a_x`,
    -1 AS `_w`
  FROM scan_old_2
  GROUP BY
    `a_k`
  UNION ALL
  SELECT
    `a_k`,
    SUM(`a_x`) AS `sum_a_x`,
    1 AS `_w`
  FROM scan_new_2
  GROUP BY
    `a_k`
), project_delta_2 AS (
  SELECT
    `a_k` AS `k_3`,
    `sum_a_x` AS `s_2`,
    `_w`
  FROM step_2
), project_delta_2_net AS (
  SELECT
    `k_3`,
    `s_2`,
    SUM(`_w`) AS `_w`
  FROM project_delta_2
  GROUP BY
    `k_3`,
    `s_2`
  HAVING
    SUM(`_w`) <> 0
), keys_4 AS (
  SELECT DISTINCT
    `k_3` AS `k_k_3`
  FROM project_delta_2_net
), project_new AS (
  SELECT
    `k` AS `k_2`,
    `sum_x` AS `s`
  FROM step_4
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_4
      WHERE
        `k_k_3` IS NOT DISTINCT FROM `sum_x`
    )
), step_5 AS (
  SELECT
    `k_2`,
    `s`,
    `k_3`,
    `s_2`,
    `_w`
  FROM project_delta_net
  INNER JOIN project_old
    ON `s` = `k_3`
  UNION ALL
  SELECT
    `k_2`,
    `s`,
    `k_3`,
    `s_2`,
    `_w`
  FROM project_new
  INNER JOIN project_delta_2_net
    ON `s` = `k_3`
), changes AS (
  SELECT
    `k_2` AS `k_4`,
    `s_2` AS `s_3`,
    `_w`
  FROM step_5
)
SELECT
  `k_4` AS `k`,
  `s_3` AS `s`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `k_4`,
  `s_3`
HAVING
  SUM(`_w`) <> 0
