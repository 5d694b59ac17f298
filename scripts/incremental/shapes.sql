-- star join with a rollup
select n_name, o_orderstatus, sum(l_extendedprice) as revenue from lineitem join orders on l_orderkey = o_orderkey
join customer on o_custkey = c_custkey join nation on c_nationkey = n_nationkey group by rollup (n_name, o_orderstatus)
-- latest row per key
select id, kind, score from events qualify row_number() over (partition by kind order by at desc) = 1
-- share of a total
select o_custkey, total, total / sum(total) over (partition by n_name) as share from (
  select o_custkey, n_name, sum(o_totalprice) as total from orders join customer on o_custkey = c_custkey
  join nation on c_nationkey = n_nationkey group by o_custkey, n_name) t
-- customers without orders in a year
select c_custkey, c_name from customer where not exists (select 1 from orders where o_custkey = c_custkey and o_orderdate >= date '1997-01-01')
-- two facts side by side
select k, sum(bought) as bought, sum(sent) as sent from (
  select o_custkey as k, o_totalprice as bought, cast(0 as decimal(15,2)) as sent from orders
  union all select l_suppkey, cast(0 as decimal(15,2)), l_extendedprice from lineitem) t group by k
-- aggregate of aggregates
select n, count(*) as customers from (select o_custkey, count(*) as n from orders group by o_custkey) t group by n
-- compared with the mean of its group
select o.o_orderkey, o.o_totalprice - m.mean as above from orders o
join (select o_custkey, avg(o_totalprice) as mean from orders group by o_custkey) m on m.o_custkey = o.o_custkey
-- float mean of a day
select date_trunc('day', at) as day, kind, avg(score) as mean, count(*) as n from events group by 1, 2
-- rows above a float mean
select e.id from events e join (select kind, avg(score) as mean from events group by kind) m on m.kind = e.kind where e.score > m.mean
