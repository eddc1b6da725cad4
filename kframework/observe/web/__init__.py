"""The web page of a scheduler (`routes`), and of the result of a simulation or a replay: one HTML document."""
