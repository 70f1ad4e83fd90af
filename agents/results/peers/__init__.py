"""Scripts that train other libraries' agents, each run by an interpreter that has the library."""
