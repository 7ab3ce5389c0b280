//! RocketMQ producers, consumers and admin calls over remoting.
