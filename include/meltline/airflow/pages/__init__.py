"""What Airflow loads as a plugin: pages, links to them, words for templates."""
