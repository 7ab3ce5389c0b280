//! Current role of this broker in its group: master, slave, or fenced. A broker is fenced before the controllers
//! assign a role, or while another broker of a group with acting masters has newer state.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

use tokio::sync::watch;

use crate::config::Config;

/// The id of a master for clients and name servers (`MixAll.MASTER_ID`).
const MASTER_ID: i64 = 0;

/// The present role of this broker in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BrokerRole {
    /// Takes messages.
    Master,
    /// Copies the log of its master.
    Slave,
    /// The broker serves nothing, takes nothing and is not registered. In controller mode this lasts until the
    /// controllers name the master. In a group with acting masters it lasts until the broker has the other brokers'
    /// state.
    Fenced,
}

/// The broker's role, for every part of the broker to read. The thread `role` of controller mode and the task `acting-master`
/// change it.
pub(crate) struct Role {
    current: AtomicU8,
    id: AtomicI64,
    /// Whether this broker's log may be shown. False for a slave whose log may still hold bytes that its master does
    /// not have.
    is_consistent: AtomicBool,
    changes: watch::Sender<u64>,
}

impl Role {
    /// The role that the configuration gives. In controller mode and in a group with acting masters it gives none, and the broker
    /// begins fenced.
    pub(crate) fn new(config: &Config) -> Self {
        let role = match () {
            () if config.is_controlled() || config.waits_for_group() => BrokerRole::Fenced,
            () if config.is_slave() => BrokerRole::Slave,
            () => BrokerRole::Master,
        };
        Self {
            current: AtomicU8::new(role as u8),
            id: AtomicI64::new(config.broker_id),
            is_consistent: AtomicBool::new(role != BrokerRole::Fenced),
            changes: watch::Sender::default(),
        }
    }

    pub(crate) fn current(&self) -> BrokerRole {
        match self.current.load(Ordering::Acquire) {
            0 => BrokerRole::Master,
            1 => BrokerRole::Slave,
            _ => BrokerRole::Fenced,
        }
    }

    /// Whether this broker appends no messages of its own.
    pub(crate) fn is_slave(&self) -> bool {
        self.current() != BrokerRole::Master
    }

    /// The id under which this broker is registered with name servers.
    pub(crate) fn id(&self) -> i64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Whether consumers may see this broker's log.
    pub(crate) fn is_consistent(&self) -> bool {
        self.is_consistent.load(Ordering::Acquire)
    }

    /// Makes this broker master. Its store takes appends already.
    pub(crate) fn lead(&self) {
        self.is_consistent.store(true, Ordering::Release);
        self.change(BrokerRole::Master, MASTER_ID);
    }

    /// Makes this broker the slave with this id. It shows its log after [`Self::agree`].
    pub(crate) fn follow(&self, id: i64) {
        self.is_consistent.store(false, Ordering::Release);
        self.change(BrokerRole::Slave, id);
    }

    /// Makes this broker neither master nor slave.
    pub(crate) fn fence(&self) {
        self.is_consistent.store(false, Ordering::Release);
        self.change(BrokerRole::Fenced, self.id());
    }

    /// Records that the slave's log is a part of its master's log.
    pub(crate) fn agree(&self) {
        self.is_consistent.store(true, Ordering::Release);
    }

    /// Returns a receiver that is notified of changes of the role.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn change(&self, role: BrokerRole, id: i64) {
        self.id.store(id, Ordering::Relaxed);
        self.current.store(role as u8, Ordering::Release);
        self.changes.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slave_shows_its_log_only_when_it_is_the_masters() {
        let (config, _) = Config::from_properties(
            b"enableControllerMode=true\ncontrollerAddr=127.0.0.1:1\nbrokerRole=SLAVE\n",
        )
        .unwrap();
        let role = Role::new(&config);
        assert_eq!(
            (role.current(), role.is_slave(), role.is_consistent()),
            (BrokerRole::Fenced, true, false)
        );
        role.follow(2);
        assert_eq!((role.current(), role.id(), role.is_consistent()), (BrokerRole::Slave, 2, false));
        role.agree();
        assert!(role.is_consistent());
        role.lead();
        assert_eq!((role.current(), role.id(), role.is_consistent()), (BrokerRole::Master, 0, true));
        role.follow(2);
        assert!(!role.is_consistent(), "the log may hold what nobody else has");
        assert_eq!(*role.changes().borrow(), 3);
    }
}
