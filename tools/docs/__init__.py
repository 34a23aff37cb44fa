"""What makes the documentation's site: the two generated references, and what the site generator is told."""
