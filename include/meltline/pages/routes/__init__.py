"""The site's routes, a module for each thing that is shown; `site` puts them together."""
