SELECT k, rank() OVER (ORDER BY x) AS r FROM a
-- derived
-- window_without_partition: a window without PARTITION BY depends on every row (line 1, column 11)
-- table [full]
--   project k_2, r [projection]
--     window RANK() OVER (ORDER BY `x`) [affected partitions]
--       table default.a [source]
