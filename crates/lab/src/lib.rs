//! Load generation, measurement and limit servers.
