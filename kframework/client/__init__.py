"""A client of an API server: transports, the reflector, the wire format, flow control."""
