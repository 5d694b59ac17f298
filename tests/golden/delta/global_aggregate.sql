SELECT count(*) AS n, max(x) AS hi FROM a
-- derived
-- table (keyed) [add to stored rows]
--   project n, hi, rows, max_of_x [projection]
--     project rows, max_of_x, count, max_x [projection]
--       aggregate COUNT(*), MAX(`x`) [sums and extrema]
--         table default.a [source]
-- reads: delta_a, new_a, stored
-- kept: touched
-- few: delta_a
WITH scan_new AS (
  SELECT
    `new_a`.`x` AS `x`
  FROM new_a
), anew AS (
  SELECT
    COUNT(*) AS `rows`,
    MAX(`x`) AS `max_of_x`
  FROM scan_new
), scan_delta AS (
  SELECT
    `delta_a`.`x` AS `x`,
    `delta_a`.`_w` AS `_w`
  FROM delta_a
), added AS (
  SELECT
    SUM(`_w`) AS `add_rows`,
    MAX(CASE WHEN `_w` > 0 THEN `x` END) AS `add_max_of_x`,
    MAX(CASE WHEN `_w` < 0 THEN `x` END) AS `del_max_of_x`
  FROM scan_delta
), stored_rows AS (
  SELECT
    `stored`.`n` AS `old_n`,
    `stored`.`hi` AS `old_hi`,
    TRUE AS `old_there`
  FROM stored
), touched AS (
  SELECT
    `add_rows`,
    `add_max_of_x`,
    `del_max_of_x`,
    `old_n`,
    `old_hi`,
    COALESCE(`old_there`, FALSE) AS `old_there`
  FROM added
  LEFT JOIN stored_rows
    ON TRUE
), come_2 AS (
  SELECT
    `rows` AS `n`,
    `max_of_x` AS `hi`,
    `rows`,
    `max_of_x`
  FROM anew
  WHERE
    EXISTS(
      SELECT
        1
      FROM touched
      WHERE
        COALESCE(`del_max_of_x` >= `old_hi`, FALSE)
    )
), step AS (
  SELECT
    (
      COALESCE(`old_n`, CAST(0 AS BIGINT)) + COALESCE(`add_rows`, CAST(0 AS BIGINT))
    ) AS `rows`,
    GREATEST(`old_hi`, `add_max_of_x`) AS `max_of_x`
  FROM touched
  WHERE
    NOT COALESCE(`del_max_of_x` >= `old_hi`, FALSE)
), come AS (
  SELECT
    `rows` AS `n`,
    `max_of_x` AS `hi`,
    `rows`,
    `max_of_x`
  FROM step
), changes AS (
  SELECT
    `old_n` AS `n`,
    `old_hi` AS `hi`,
    -1 AS `_w`
  FROM touched
  WHERE
    `old_there`
  UNION ALL
  SELECT
    `n`,
    `hi`,
    1 AS `_w`
  FROM come
  UNION ALL
  SELECT
    `n`,
    `hi`,
    1 AS `_w`
  FROM come_2
)
SELECT
  `n`,
  `hi`,
  SUM(`_w`) AS `_w`
FROM changes
GROUP BY
  `n`,
  `hi`
HAVING
  SUM(`_w`) <> 0
