-- A page of orders does not read the cancelled ones before it.
CREATE INDEX orders_listed ON orders (id) WHERE status <> 'cancelled';
