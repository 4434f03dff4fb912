"""What is learned from jobs that run: profiles, progress, metering."""
