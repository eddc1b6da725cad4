"""The plugin runtime: plugins are discovered, instantiated, compiled into profiles, and run point by point."""
