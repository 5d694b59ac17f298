SELECT k,
       rand() AS r,
       current_timestamp() AS at
FROM a
-- derived
-- not_deterministic: rand() gives another value each time (line 2, column 8)
-- time_function: current_timestamp() outside WHERE gives another value at each refresh (line 3, column 8)
-- table [full]
--   project k_2, r, at [projection]
--     table default.a [source]
