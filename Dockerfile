# syntax=docker/dockerfile:1
# One image for every Airflow component: the locked packages, a Java that Spark runs on, the jars.
FROM apache/airflow:3.3.2-python3.11

USER root
RUN apt-get update --quiet \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o airflow -g 0 /opt/meltline /opt/airflow/auth /data
USER airflow

# A virtual environment of our own, in front of the image's packages: what runs here is then the
# very set that was resolved and tested together, and not a blend with the image's providers.
ENV VIRTUAL_ENV=/opt/meltline/venv \
    PATH=/opt/meltline/venv/bin:$PATH
COPY requirements.txt /opt/meltline/
RUN python3.11 -m venv "$VIRTUAL_ENV" \
    && python -m pip install --no-cache-dir --no-deps --require-hashes \
        --requirement /opt/meltline/requirements.txt

# The package, with its command and Airflow's plugin; pip fetches the build backend for it.
COPY pyproject.toml README.md LICENSE NOTICE /opt/meltline/source/
COPY include /opt/meltline/source/include
RUN python -m pip install --no-cache-dir --no-deps /opt/meltline/source

ENV MELTLINE_JARS=/opt/meltline/jars
# s3: object stores are the rule here, so their jar comes along.
RUN meltline jars fetch --feature s3

ENV PYSPARK_PYTHON=/opt/meltline/venv/bin/python \
    GX_ANALYTICS_ENABLED=false

# Compose mounts these over, so that a changed DAG needs no new image.
COPY dags /opt/airflow/dags
