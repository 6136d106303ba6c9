#!/bin/sh
# Makes a database and a user for each of Airflow, the control ledger and the catalog. The image of
# Postgres runs this once, when its volume is new. Each user owns its database, and
# comes into none of the others.
set -e

database() {
    # The password travels in the environment: a command line is for everyone to read.
    DATABASE_PASSWORD=$2 psql --no-psqlrc --set=ON_ERROR_STOP=1 --set=name="$1" \
        --username="$POSTGRES_USER" --dbname=postgres <<'SQL'
\getenv password DATABASE_PASSWORD
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

database airflow "${AIRFLOW_DB_PASSWORD:?}"
database meltline "${LEDGER_PASSWORD:?}"
database lake "${CATALOG_PASSWORD:?}"
