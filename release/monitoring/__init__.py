"""What operators watch a cluster with, made from the table of metrics: dashboard, alert rules, page of the docs."""
