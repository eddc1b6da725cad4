"""The selectors of devices: `selector.compile_selector` gives a `Selector`, which is asked about a `device.Device`."""
