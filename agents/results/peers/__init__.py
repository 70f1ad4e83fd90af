"""Scripts that train agents of other libraries, each with an interpreter that has the library."""
