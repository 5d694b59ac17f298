SELECT k FROM a UNION SELECT k FROM b
-- derived
-- table (keyed by k, also keeps _neve_rows) [add to stored rows]
--   project k_4, rows [projection]
--     aggregate COUNT(*) by k_4 [sums]
--       union all [union]
--         project k_2 [projection]
--           table default.a [source]
--         project k_3 [projection]
--           table default.b [source]
-- reads: delta_a, delta_b, stored
-- kept: added, touched
-- few: delta_a, delta_b, unionall_delta, added
WITH unionall_delta AS (
  SELECT
    `delta_a`.`k` AS `k_4`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
  UNION ALL
  SELECT
    `delta_b`.`k` AS `k_4`,
    `delta_b`.`_w` AS `_w`
  FROM delta_b
), added AS (
  SELECT
    `k_4`,
    SUM(`_w`) AS `add_rows`
  FROM unionall_delta
  GROUP BY
    `k_4`
), stored_rows AS (
  SELECT
    `stored`.`k` AS `old_k_4`,
    `stored`.`_neve_rows` AS `old_rows`,
    TRUE AS `old_there`
  FROM stored
  WHERE
    EXISTS(
      SELECT
        1
      FROM added
      WHERE
        `k_4` IS NOT DISTINCT FROM `stored`.`k`
    )
), touched AS (
  SELECT
    `k_4`,
    `add_rows`,
    `old_k_4`,
    `old_rows`,
    COALESCE(`old_there`, FALSE) AS `old_there`
  FROM added
  LEFT JOIN stored_rows
    ON `k_4` IS NOT DISTINCT FROM `old_k_4`
), step AS (
  SELECT
    `k_4`,
    (
      COALESCE(`old_rows`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) AS `rows`
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
    )
), come AS (
  SELECT
    `k_4`,
    `rows`
  FROM step
), changes AS (
  SELECT
    `old_k_4` AS `k_4`,
    `old_rows` AS `rows`,
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
    )
  UNION ALL
  SELECT
    `k_4`,
    `rows`,
    1 AS `_w`
  FROM come
)
SELECT
  `k_4` AS `k`,
  `rows` AS `_neve_rows`,
  CAST(`_w` AS BIGINT) AS `_w`
FROM changes
