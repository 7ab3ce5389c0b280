//! What the tests of the whole product share: a blocking client of the protocol, a guard of the server process,
//! a load that numbers its messages, and the judge of what was read back.
#![allow(dead_code, reason = "each of the test programs uses its part")]

pub mod disk;
pub mod judge;
pub mod load;
pub mod message;
pub mod os;
pub mod random;
pub mod read;
pub mod server;
pub mod sick_disk;
pub mod wire_client;
