//! The name server: routes from topics to brokers.
