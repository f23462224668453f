"""Tables of the functions of peers and of their counterparts here, one file for each peer."""
