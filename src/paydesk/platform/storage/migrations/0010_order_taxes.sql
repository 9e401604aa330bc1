-- The tax condition of the sale as the request had it, a JSON array of one object: point of sale software in Chile sends it.

ALTER TABLE orders ADD COLUMN taxes text;
