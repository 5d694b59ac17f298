SELECT k, count(*) AS n, sum(x) AS t, avg(m) AS am FROM a GROUP BY k
-- derived
-- table (keyed by k, also keeps _neve_count_of_x, _neve_count_of_m, _neve_sum_of_m) [add to stored rows]
--   project k_2, n, t, am, k, rows, count_of_x, sum_of_x, count_of_m, sum_of_m [projection]
--     project k, rows, count_of_x, sum_of_x, count_of_m, sum_of_m, count, sum_x, avg_m [projection]
--       aggregate COUNT(*), COUNT(`x`), SUM(`x`), COUNT(`m`), SUM(`m`) by k [sums]
--         table default.a [source]
-- reads: delta_a, stored
-- kept: added, touched
-- few: delta_a, added
WITH scan_delta AS (
  SELECT
    `delta_a`.`k` AS `k`,
    `delta_a`.`x` AS `x`,
    `delta_a`.`m` AS `m`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), added AS (
  SELECT
    `k`,
    SUM(`_w`) AS `add_rows`,
    SUM(CASE WHEN (
      `x`
    ) IS NULL THEN 0 ELSE `_w` END) AS `add_count_of_x`,
    SUM((
      `x`
    ) * `_w`) AS `add_sum_of_x`,
    SUM(CASE WHEN (
      `m`
    ) IS NULL THEN 0 ELSE `_w` END) AS `add_count_of_m`,
    SUM((
      `m`
    ) * CAST(`_w` AS DECIMAL(10, 0))) AS `add_sum_of_m`
  FROM scan_delta
  GROUP BY
    `k`
), stored_rows AS (
  SELECT
    `stored`.`k` AS `old_k_2`,
    `stored`.`n` AS `old_n`,
    `stored`.`t` AS `old_t`,
    `stored`.`am` AS `old_am`,
    `stored`.`_neve_count_of_x` AS `old_count_of_x`,
    `stored`.`_neve_count_of_m` AS `old_count_of_m`,
    `stored`.`_neve_sum_of_m` AS `old_sum_of_m`,
    TRUE AS `old_there`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM added
      WHERE
        `k` IS NOT DISTINCT FROM `stored`.`k`
    )
), touched AS (
  SELECT
    `k`,
    `add_rows`,
    `add_count_of_x`,
    `add_sum_of_x`,
    `add_count_of_m`,
    `add_sum_of_m`,
    `old_k_2`,
    `old_n`,
    `old_t`,
    `old_am`,
    `old_count_of_x`,
    `old_count_of_m`,
    `old_sum_of_m`,
    COALESCE(`old_there`, FALSE) AS `old_there`
  FROM added
  LEFT JOIN stored_rows
    ON `k` IS NOT DISTINCT FROM `old_k_2`
), step AS (
  SELECT
    `k`,
    (
      COALESCE(`old_n`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) AS `rows`,
    (
      COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
    ) AS `count_of_x`,
    CASE
      WHEN (
        COALESCE(`old_count_of_x`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_x`, CAST(0 AS BIGINT))
      ) > 0
      THEN CAST(COALESCE(`old_t`, CAST(0 AS BIGINT)) + COALESCE(`add_sum_of_x`, CAST(0 AS BIGINT)) AS BIGINT)
    END AS `sum_of_x`,
    (
      COALESCE(`old_count_of_m`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_m`, CAST(0 AS BIGINT))
    ) AS `count_of_m`,
    CASE
      WHEN (
        COALESCE(`old_count_of_m`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_m`, CAST(0 AS BIGINT))
      ) > 0
      THEN CAST(COALESCE(`old_sum_of_m`, CAST(0 AS DECIMAL(22, 2))) + COALESCE(`add_sum_of_m`, CAST(0 AS DECIMAL(22, 2))) AS DECIMAL(22, 2))
    END AS `sum_of_m`
  FROM touched
  WHERE
    (
      COALESCE(`old_n`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) > 0
    AND NOT (
      `old_there`
      AND `old_n` IS NOT DISTINCT FROM (
        COALESCE(`old_n`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
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
      AND `old_count_of_m` IS NOT DISTINCT FROM (
        COALESCE(`old_count_of_m`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_m`, CAST(0 AS BIGINT))
      )
      AND `old_sum_of_m` IS NOT DISTINCT FROM CASE
        WHEN (
          COALESCE(`old_count_of_m`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_m`, CAST(0 AS BIGINT))
        ) > 0
        THEN CAST(COALESCE(`old_sum_of_m`, CAST(0 AS DECIMAL(22, 2))) + COALESCE(`add_sum_of_m`, CAST(0 AS DECIMAL(22, 2))) AS DECIMAL(22, 2))
      END
    )
), step_2 AS (
  SELECT
    `k`,
    `rows`,
    `count_of_x`,
    `sum_of_x`,
    `count_of_m`,
    `sum_of_m`,
    `rows` AS `count`,
    `sum_of_x` AS `sum_x`,
    CASE
      WHEN `count_of_m` > 0
      THEN CAST(`sum_of_m` / `count_of_m` AS DECIMAL(16, 6))
    END AS `avg_m`
  FROM step
), come AS (
  SELECT
    `k` AS `k_2`,
    `count` AS `n`,
    `sum_x` AS `t`,
    `avg_m` AS `am`,
    `k`,
    `rows`,
    `count_of_x`,
    `sum_of_x`,
    `count_of_m`,
    `sum_of_m`
  FROM step_2
), changes AS (
  SELECT
    `old_k_2` AS `k_2`,
    `old_n` AS `n`,
    `old_t` AS `t`,
    `old_am` AS `am`,
    `old_count_of_x` AS `count_of_x`,
    `old_count_of_m` AS `count_of_m`,
    `old_sum_of_m` AS `sum_of_m`,
    -1 AS `_w`
  FROM touched
  WHERE
    `old_there`
    AND NOT (
      (
        COALESCE(`old_n`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
      ) > 0
      AND `old_n` IS NOT DISTINCT FROM (
        COALESCE(`old_n`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
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
      AND `old_count_of_m` IS NOT DISTINCT FROM (
        COALESCE(`old_count_of_m`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_m`, CAST(0 AS BIGINT))
      )
      AND `old_sum_of_m` IS NOT DISTINCT FROM CASE
        WHEN (
          COALESCE(`old_count_of_m`, CAST(0 AS BIGINT)) + COALESCE(`add_count_of_m`, CAST(0 AS BIGINT))
        ) > 0
        THEN CAST(COALESCE(`old_sum_of_m`, CAST(0 AS DECIMAL(22, 2))) + COALESCE(`add_sum_of_m`, CAST(0 AS DECIMAL(22, 2))) AS DECIMAL(22, 2))
      END
    )
  UNION ALL
  SELECT
    `k_2`,
    `n`,
    `t`,
    `am`,
    `count_of_x`,
    `count_of_m`,
    `sum_of_m`,
    1 AS `_w`
  FROM come
)
SELECT
  `k_2` AS `k`,
  `n`,
  `t`,
  `am`,
  `count_of_x` AS `_neve_count_of_x`,
  `count_of_m` AS `_neve_count_of_m`,
  `sum_of_m` AS `_neve_sum_of_m`,
  CAST(`_w` AS BIGINT) AS `_w`
FROM changes
