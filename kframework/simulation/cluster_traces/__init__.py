"""Published cluster traces as objects of a simulation, with their arrivals, run times and failures of nodes."""
