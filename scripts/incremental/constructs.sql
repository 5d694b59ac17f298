-- project, filter
select o_orderkey, o_totalprice * 2 as twice from orders where o_totalprice > 10
-- UNION ALL
select c_custkey as k from customer union all select o_custkey from orders
-- UNION / DISTINCT
select distinct o_custkey from orders
-- INTERSECT / EXCEPT
select c_custkey from customer except select o_custkey from orders
-- inner join, N-way
select o_orderkey, c_name, n_name from orders join customer on o_custkey = c_custkey join nation on c_nationkey = n_nationkey
-- self join
select a.o_orderkey, b.o_orderkey as other from orders a join orders b on a.o_custkey = b.o_custkey and a.o_orderkey < b.o_orderkey
-- LEFT / RIGHT / FULL
select c_name, o_orderkey from customer full join orders on c_custkey = o_custkey
-- EXISTS / IN / semi / anti
select c_name from customer where c_custkey not in (select o_custkey from orders) or exists (select 1 from nation where n_nationkey = c_nationkey)
-- scalar subquery
select o_orderkey, o_totalprice - (select avg(o_totalprice) from orders) as above from orders
-- SUM COUNT AVG
select o_custkey, sum(o_totalprice) as total, count(*) as n, avg(o_totalprice) as mean from orders group by o_custkey
-- MIN MAX
select o_custkey, min(o_orderdate) as first, max(o_orderdate) as last from orders group by o_custkey
-- COUNT DISTINCT
select o_custkey, count(distinct o_orderdate) as days from orders group by o_custkey
-- STDDEV / VAR
select o_custkey, stddev(o_totalprice) as spread from orders group by o_custkey
-- collect, median, percentile
select o_custkey, collect_list(o_orderkey) as orders, median(o_totalprice) as middle from orders group by o_custkey
-- GROUPING SETS / ROLLUP
select o_custkey, o_orderstatus, sum(o_totalprice) as total from orders group by rollup (o_custkey, o_orderstatus)
-- HAVING
select o_custkey, sum(o_totalprice) as total from orders group by o_custkey having total > 1000
-- window
select o_orderkey, rank() over (partition by o_custkey order by o_totalprice desc) as place from orders
-- LATERAL / explode
select id, tag from events lateral view explode(tags) t as tag
-- CTE / FROM subquery
with t as (select o_custkey, count(*) as n from orders group by o_custkey) select c_name, n from customer join t on c_custkey = o_custkey
-- recursive
with recursive r as (select 1 as n union all select n + 1 from r where n < 9) select n from r
-- ORDER BY LIMIT
select o_orderkey, o_totalprice from orders order by o_totalprice desc limit 10
-- LIMIT alone
select o_orderkey from orders limit 10
-- non-deterministic
select o_orderkey, uuid() as tag from orders
-- current_timestamp in WHERE
select id, kind from events where at > current_timestamp() - interval 1 day
-- current_timestamp in SELECT
select id, current_timestamp() as seen from events
