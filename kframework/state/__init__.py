"""The cluster as the scheduler sees it, live and columnar."""
