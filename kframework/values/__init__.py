"""Values that both the live tables and the plugin contract are written in."""
