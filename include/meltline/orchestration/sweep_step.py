"""The sweep as an Airflow task: a step whose further words come from the run's parameters."""

from meltline.orchestration.spark_step import SparkStep


class SweepStep(SparkStep):
    """A step in whose arguments `{{ params.NAME }}` stands for what the run was asked for.

    Each value stays in one word with its option, so it can be no option of its own.
    """

    template_fields = (*SparkStep.template_fields, "arguments")
