"""Device selectors: `selector.compile_selector` returns a `Selector`, which matches a `device.Device`."""
