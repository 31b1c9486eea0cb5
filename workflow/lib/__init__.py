"""What the workflow's rules and scripts share."""
