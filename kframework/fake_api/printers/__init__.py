"""Tables of objects, as `kubectl get` prints them."""
