# syntax=docker/dockerfile:1
# One image for all that runs: Airflow's components, the command, Spark's driver and its executors.
FROM apache/airflow:3.3.2-python3.11

# The base image's own user, by number: Kubernetes can then see that it is not root.
ARG AIRFLOW_USER=50000

USER 0
# Java comes in the version that Debian's security team has come to, as all of the base image does.
# hadolint ignore=DL3008
RUN apt-get update --quiet \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    # What volumes are mounted over: a new one takes the owner and the mode that it finds there.
    && install -d -o "${AIRFLOW_USER}" -g 0 /opt/meltline /opt/meltline/site /data \
    && install -d -m 700 -o "${AIRFLOW_USER}" -g 0 \
        /opt/meltline/site/meltline-docs /opt/airflow/auth
USER ${AIRFLOW_USER}

# A virtual environment of our own, in front of the image's packages: what runs here is then the
# very set that was resolved and tested together, and not a blend with the image's providers.
ENV VIRTUAL_ENV=/opt/meltline/venv \
    PATH=/opt/meltline/venv/bin:$PATH
# What the package and its extras need; nothing of what tests and checks need.
COPY deploy/requirements.txt /opt/meltline/
RUN python3.11 -m venv "$VIRTUAL_ENV" \
    && python -m pip install --no-cache-dir --no-deps --require-hashes \
        --requirement /opt/meltline/requirements.txt

# The package, with its command and Airflow's plugin; pip fetches the build backend for it.
COPY pyproject.toml README.md LICENSE NOTICE /opt/meltline/source/
COPY dags /opt/meltline/source/dags
COPY include /opt/meltline/source/include
COPY plugins /opt/meltline/source/plugins
COPY spark_apps /opt/meltline/source/spark_apps
RUN python -m pip install --no-cache-dir --no-deps /opt/meltline/source

ENV MELTLINE_JARS=/opt/meltline/jars
# s3: object stores are the rule here, so their jar comes along. Others: gcp, azure.
RUN meltline jars fetch --feature s3

ENV PYSPARK_PYTHON=/opt/meltline/venv/bin/python \
    GX_ANALYTICS_ENABLED=false

# Compose mounts these over, so that a changed DAG needs no new image.
COPY dags /opt/airflow/dags
COPY plugins /opt/airflow/plugins
