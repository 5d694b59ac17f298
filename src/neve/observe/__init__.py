"""What leaves the house while it works: log lines, metrics, alerts. Nothing here decides, or may fail a job."""
