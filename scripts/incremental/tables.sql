-- part
p_partkey bigint not null, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, p_container string, p_retailprice decimal(15,2), p_comment string
-- supplier
s_suppkey bigint not null, s_name string, s_address string, s_nationkey bigint, s_phone string, s_acctbal decimal(15,2), s_comment string
-- partsupp
ps_partkey bigint not null, ps_suppkey bigint not null, ps_availqty int, ps_supplycost decimal(15,2), ps_comment string
-- customer
c_custkey bigint not null, c_name string, c_address string, c_nationkey bigint, c_phone string, c_acctbal decimal(15,2), c_mktsegment string, c_comment string
-- orders
o_orderkey bigint not null, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, o_orderpriority string, o_clerk string, o_shippriority int, o_comment string
-- lineitem
l_orderkey bigint not null, l_partkey bigint, l_suppkey bigint, l_linenumber int not null, l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, l_comment string
-- nation
n_nationkey bigint not null, n_name string, n_regionkey bigint, n_comment string
-- region
r_regionkey bigint not null, r_name string, r_comment string
-- events
id bigint not null, at timestamp, kind string, score double, tags array<string>
