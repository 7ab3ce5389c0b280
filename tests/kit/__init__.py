"""Shared parts of the programs that test and measure whole servers: ports, servers, downloads, waiting and counting."""
