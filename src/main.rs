//! The `vostok` binary.
fn main() {}
