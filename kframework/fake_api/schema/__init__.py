"""What the API server knows of the shape of objects: OpenAPI documents, decoding, defaults, validation.

What fields there are, and of which types, is read from the client's models (`kframework.client.models`); what they
leave out stands in `formats`.
"""
