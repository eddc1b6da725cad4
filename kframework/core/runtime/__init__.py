"""The plugins at work: found, made, compiled into profiles, and run point by point."""
