"""What runs show: one `results(run)` a lab, and the readings that several labs share."""
