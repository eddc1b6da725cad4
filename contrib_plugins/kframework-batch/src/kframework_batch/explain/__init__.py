"""Why a job or a pod of batch scheduling is where it is: the accounts of sessions, and what would help, tried."""
