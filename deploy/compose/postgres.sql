-- Run once by the image of PostgreSQL, as its superuser, when it makes the database. Paydesk refuses a superuser: it gets
-- a role of its own, which owns its database. From then on the superuser has no password and logs in inside its container
-- only: `docker compose exec postgres psql --username=postgres`.
\getenv password DATABASE_PASSWORD
CREATE ROLE paydesk LOGIN PASSWORD :'password';
CREATE DATABASE paydesk OWNER paydesk;
ALTER ROLE postgres PASSWORD NULL;
