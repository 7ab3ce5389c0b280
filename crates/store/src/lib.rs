//! The log: append, flush, read, queue index, checkpoint, recovery.
