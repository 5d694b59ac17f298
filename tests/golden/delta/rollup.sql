SELECT k, g, grouping(g) AS r, sum(x) AS t FROM a GROUP BY ROLLUP (k, g)
-- derived
-- table (keyed by k, g, _neve_grouping_set, also keeps _neve_grouping_set, _neve_rows, _neve_count_of_x) [add to stored rows]
--   project k_3, g_3, r, t, k_2, g_2, grouping_set, rows, count_of_x, sum_of_x [projection]
--     project k_2, g_2, grouping_set, rows, count_of_x, sum_of_x, sum_x [projection]
--       aggregate COUNT(*), COUNT(`x`), SUM(`x`) by k_2, g_2, grouping_set [sums]
--         project x, grouping_set, k_2, g_2 [projection]
--           cross join [join terms]
--             table default.a [source]
--             3 constant rows [constant]
-- reads: delta_a, stored
-- kept: added, touched
-- few: delta_a
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`g` AS `g`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), constant_new AS (
  SELECT
    `grouping_set`
  FROM VALUES
    (0),
    (1),
    (2) AS v(`grouping_set`)
), step AS (
  SELECT
    `k`,
    `g`,
    `x`,
    `grouping_set`,
    `_w`
  FROM scan_delta
  INNER JOIN constant_new
    ON TRUE
), project_delta AS (
  SELECT
    `x`,
    `grouping_set`,
    CASE WHEN `grouping_set` IN (0, 1) THEN `k` END AS `k_2`,
    CASE WHEN `grouping_set` IN (0) THEN `g` END AS `g_2`,
    `_w`
  FROM step
), added AS (
  SELECT
    `k_2`,
    `g_2`,
    `grouping_set`,
    SUM(`_w`) AS `add_rows`,
    SUM(CASE WHEN (
      `x`
    ) IS NULL THEN 0 ELSE `_w` END) AS `add_count_of_x`,
    SUM((
      `x`
    ) * `_w`) AS `add_sum_of_x`
  FROM project_delta
  GROUP BY
    `k_2`,
    `g_2`,
    `grouping_set`
), stored_rows AS (
  SELECT
    `stored`.`k` AS `old_k_3`,
    `stored`.`g` AS `old_g_3`,
    `stored`.`r` AS `old_r`,
    `stored`.`t` AS `old_t`,
    `stored`.`_neve_grouping_set` AS `old_grouping_set`,
    `stored`.`_neve_rows` AS `old_rows`,
    `stored`.`_neve_count_of_x` AS `old_count_of_x`,
    TRUE AS `old_there`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM added
      WHERE
        `k_2` IS NOT DISTINCT FROM `stored`.`k`
        AND `g_2` IS NOT DISTINCT FROM `stored`.`g`
        AND `grouping_set` IS NOT DISTINCT FROM `stored`.`_neve_grouping_set`
    )
), touched AS (
  SELECT
    `k_2`,
    `g_2`,
    `grouping_set`,
    `add_rows`,
    `add_count_of_x`,
    `add_sum_of_x`,
    `old_k_3`,
    `old_g_3`,
    `old_r`,
    `old_t`,
    `old_grouping_set`,
    `old_rows`,
    `old_count_of_x`,
    COALESCE(`old_there`, FALSE) AS `old_there`
  FROM added
  LEFT JOIN stored_rows
    ON `k_2` IS NOT DISTINCT FROM `old_k_3`
    AND `g_2` IS NOT DISTINCT FROM `old_g_3`
    AND `grouping_set` IS NOT DISTINCT FROM `old_grouping_set`
), step_2 AS (
  SELECT
    `k_2`,
    `g_2`,
    `grouping_set`,
    (
      COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) AS `rows`,
    (
      COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
    ) AS `count_of_x`,
    CASE
      WHEN (
        COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
      ) > 0
      THEN CAST(COALESCE(`old_t`, CAST(0 AS BIGINT)) + COALESCE(`add_sum_of_x`, CAST(0 AS BIGINT)) AS BIGINT)
    END AS `sum_of_x`
  FROM touched
  WHERE
    (
      COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) > 0
    AND NOT (
      `old_there`
      AND `old_rows` IS NOT DISTINCT FROM (
        COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
      )
      AND `old_count_of_x` IS NOT DISTINCT FROM (
        COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
      )
      AND `old_t` IS NOT DISTINCT FROM CASE
        WHEN (
          COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
        ) > 0
        THEN CAST(COALESCE(`old_t`, CAST(0 AS BIGINT)) + COALESCE(`add_sum_of_x`, CAST(0 AS BIGINT)) AS BIGINT)
      END
    )
), come AS (
  SELECT
    `k_2` AS `k_3`,
    `g_2` AS `g_3`,
    CAST(CASE
      WHEN `grouping_set` = 0
      THEN 0
      WHEN `grouping_set` = 1
      THEN 1
      WHEN `grouping_set` = 2
      THEN 1
    END AS TINYINT) AS `r`,
    `sum_of_x` AS `t`,
    `k_2`,
    `g_2`,
    `grouping_set`,
    `rows`,
    `count_of_x`,
    `sum_of_x`
  FROM step_2
), changes AS (
  SELECT
    `old_k_3` AS `k_3`,
    `old_g_3` AS `g_3`,
    `old_r` AS `r`,
    `old_t` AS `t`,
    `old_grouping_set` AS `grouping_set`,
    `old_rows` AS `rows`,
    `old_count_of_x` AS `count_of_x`,
    -1 AS `_w`
  FROM touched
  WHERE
    `old_there`
    AND NOT (
      (
        COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
      ) > 0
      AND `old_rows` IS NOT DISTINCT FROM (
        COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
      )
      AND `old_count_of_x` IS NOT DISTINCT FROM (
        COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
      )
      AND `old_t` IS NOT DISTINCT FROM CASE
        WHEN (
          COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
        ) > 0
        THEN CAST(COALESCE(`old_t`, CAST(0 AS BIGINT)) + COALESCE(`add_sum_of_x`, CAST(0 AS BIGINT)) AS BIGINT)
      END
    )
  UNION ALL
  SELECT
    `k_3`,
    `g_3`,
    `r`,
    `t`,
    `grouping_set`,
    `rows`,
    `count_of_x`,
    1 AS `_w`
  FROM come
)
SELECT
  `k_3` AS `k`,
  `g_3` AS `g`,
  `r`,
  `t`,
  `grouping_set` AS `_neve_grouping_set`,
  `rows` AS `_neve_rows`,
  `count_of_x` AS `_neve_count_of_x`,
  CAST(`_w` AS BIGINT) AS `_w`
FROM changes
