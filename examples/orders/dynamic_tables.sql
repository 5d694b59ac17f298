-- orders, customers, products → order_details → customer_metrics, daily_revenue → top_products, which reads both sides

CREATE DYNAMIC TABLE shop.order_details
TARGET_LAG = DOWNSTREAM
COMMENT 'Every order with the names that go with it'
AS
SELECT o.order_id, o.ordered_on, o.quantity, o.quantity * p.price AS amount,
       c.customer_id, c.customer_name, c.region, p.product_name, p.category
FROM shop.orders o
JOIN shop.customers c ON o.customer_id = c.customer_id
JOIN shop.products p ON o.product_id = p.product_id;

CREATE DYNAMIC TABLE shop.customer_metrics
TARGET_LAG = '5 minutes'
AS
SELECT customer_id, customer_name, count(*) AS orders, sum(amount) AS spent, max(ordered_on) AS last_order
FROM shop.order_details
GROUP BY customer_id, customer_name;

CREATE DYNAMIC TABLE shop.daily_revenue
TARGET_LAG = '5 minutes'
AS
SELECT ordered_on, region, count(*) AS orders, sum(amount) AS revenue
FROM shop.order_details
GROUP BY ordered_on, region;

CREATE DYNAMIC TABLE shop.top_products
TARGET_LAG = '5 minutes'
AS
SELECT d.product_name, sum(d.amount) AS revenue, max(t.revenue) AS of_all
FROM shop.order_details d
CROSS JOIN (SELECT sum(revenue) AS revenue FROM shop.daily_revenue) t
GROUP BY d.product_name
ORDER BY revenue DESC, product_name
LIMIT 3;
