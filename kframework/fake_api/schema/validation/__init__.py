"""What people are told daily of their objects: one file for each part of the API.

Objects are plain data here, decoded and filled in, so that fields have their types.
"""
