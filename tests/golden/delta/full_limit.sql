SELECT k FROM a LIMIT 5
-- derived
-- limit_without_order: LIMIT without ORDER BY takes any rows (line 1, column 23)
-- table [full]
--   order by  limit 5 [first rows]
--     project k_2 [projection]
--       table default.a [source]
