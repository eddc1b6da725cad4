"""Values that the live tables and the plugin contract are both written in."""
