//! Connections: framing, batching, back-pressure, correlation.
