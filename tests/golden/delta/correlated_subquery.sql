SELECT k, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a
-- derived
-- table (bag) [add and remove rows]
--   project k_2, n [projection]
--     left join on `b_k` = `k` [outer join terms]
--       table default.a [source]
--       project *, b_k, there [projection]
--         project *, b_k [projection]
--           aggregate COUNT(*) by b_k [affected groups]
--             table default.b [source]
-- reads: delta_a, delta_b, new_a, new_b, old_a, old_b
-- kept: delta_a, keys, project_delta_net, keys_2
-- few: delta_a, delta_b, keys, step, project_delta_net, turned, keys_2
WITH scan_old_3 AS (
  SELECT
    `old_a`.`k` AS `k`
  FROM old_a
), scan_delta_2 AS (
  SELECT
    `delta_b`.`k` AS `b_k`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), keys AS (
  SELECT DISTINCT
    `b_k` AS `k_b_k`
  FROM scan_delta_2
), scan_old AS (
  SELECT
    `old_b`.`k` AS `b_k`
  FROM old_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_b_k` IS NOT DISTINCT FROM `old_b`.`k`
    )
), scan_new AS (
  SELECT
    `new_b`.`k` AS `b_k`
  FROM new_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys
      WHERE
        `k_b_k` IS NOT DISTINCT FROM `new_b`.`k`
    )
), step AS (
  SELECT
    `b_k`,
    COUNT(*) AS `count`,
    -1 AS `_w`
  FROM scan_old
  GROUP BY
    `b_k`
  UNION ALL
  SELECT
    `b_k`,
    COUNT(*) AS `count`,
    1 AS `_w`
  FROM scan_new
  GROUP BY
    `b_k`
), project_delta AS (
  SELECT
    `count` AS `*`,
    `b_k`,
    TRUE AS `there`,
    `_w`
  FROM step
), project_delta_net AS (
  SELECT
    `*`,
    `b_k`,
    `there`,
    SUM(`_w`) AS `_w`
  FROM project_delta
  GROUP BY
    `*`,
    `b_k`,
    `there`
  HAVING
    SUM(`_w`) <> 0
), keys_3 AS (
  SELECT DISTINCT
    `b_k` AS `k_b_k_2`
  FROM project_delta_net
), scan_new_4 AS (
  SELECT
    `new_b`.`k` AS `b_k`
  FROM new_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_3
      WHERE
        `k_b_k_2` IS NOT DISTINCT FROM `new_b`.`k`
    )
), step_4 AS (
  SELECT
    `b_k`,
    COUNT(*) AS `count`
  FROM scan_new_4
  GROUP BY
    `b_k`
), project_new_2 AS (
  SELECT
    `count` AS `*`,
    `b_k`,
    TRUE AS `there`
  FROM step_4
), partners AS (
  SELECT
    `b_k` AS `k_b_k_2`,
    1 AS `now`,
    0 AS `came`
  FROM project_new_2
  UNION ALL
  SELECT
    `b_k` AS `k_b_k_2`,
    0 AS `now`,
    `_w` AS `came`
  FROM project_delta_net
), turned AS (
  SELECT
    `k_b_k_2`,
    SUM(`now`) - SUM(`came`) > 0 AS `had`
  FROM partners
  GROUP BY
    `k_b_k_2`
  HAVING
    (
      SUM(`now`) - SUM(`came`) > 0
    ) <> (
      SUM(`now`) > 0
    )
), flipped AS (
  SELECT
    `k`,
    `had`
  FROM scan_old_3
  JOIN turned
    ON `k` = `k_b_k_2`
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
), keys_2 AS (
  SELECT DISTINCT
    `k` AS `k_k`
  FROM scan_delta
), scan_new_3 AS (
  SELECT
    `new_b`.`k` AS `b_k`
  FROM new_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_2
      WHERE
        `k_k` IS NOT DISTINCT FROM `new_b`.`k`
    )
), step_3 AS (
  SELECT
    `b_k`,
    COUNT(*) AS `count`
  FROM scan_new_3
  GROUP BY
    `b_k`
), project_new AS (
  SELECT
    `count` AS `*`,
    `b_k`,
    TRUE AS `there`
  FROM step_3
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
        `b_k` = `k`
    )
), scan_old_2 AS (
  SELECT
    `old_b`.`k` AS `b_k`
  FROM old_b
  WHERE
    EXISTS(
      SELECT
        1
      FROM keys_2
      WHERE
        `k_k` IS NOT DISTINCT FROM `old_b`.`k`
    )
), step_2 AS (
  SELECT
    `b_k`,
    COUNT(*) AS `count`
  FROM scan_old_2
  GROUP BY
    `b_k`
), project_old AS (
  SELECT
    `count` AS `*`,
    `b_k`,
    TRUE AS `there`
  FROM step_2
), scan_new_2 AS (
  SELECT
    `new_a`.`k` AS `k`
  FROM new_a
), step_5 AS (
  SELECT
    `k`,
    `*`,
    `b_k`,
    `there`,
    `_w`
  FROM scan_delta
  INNER JOIN project_old
    ON `b_k` = `k`
  UNION ALL
  SELECT
    `k`,
    `*`,
    `b_k`,
    `there`,
    `_w`
  FROM scan_new_2
  INNER JOIN project_delta_net
    ON `b_k` = `k`
  UNION ALL
  SELECT
    `k`,
    NULL AS `*`,
    NULL AS `b_k`,
    NULL AS `there`,
    `_w`
  FROM unmatched
  UNION ALL
  SELECT
    `k`,
    NULL AS `*`,
    NULL AS `b_k`,
    NULL AS `there`,
    `_w`
  FROM unmatched_2
), changes AS (
  SELECT
    `k` AS `k_2`,
    CASE WHEN `there` IS NULL THEN 0 ELSE `*` END AS `n`,
    `_w`
  FROM step_5
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
