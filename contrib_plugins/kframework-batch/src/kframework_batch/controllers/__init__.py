"""The controllers of Volcano: they make pods and pod groups of jobs, and keep their status."""
