"""The site's routes, one module for each subject; `site` combines them."""
