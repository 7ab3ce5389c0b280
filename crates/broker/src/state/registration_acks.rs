//! Registration acknowledgements: which generation of the table of topics each name server has answered. Requests that create
//! a topic are answered only when the name servers know it, because the client asks them for its route next.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::within;

/// The generation of the table that each reachable name server has acknowledged, by address.
#[derive(Default)]
pub(crate) struct RegistrationAcks {
    acks: watch::Sender<BTreeMap<String, u64>>,
    /// Notified when `namesrvAddr` changes.
    name_servers: watch::Sender<()>,
}

impl RegistrationAcks {
    /// Records that a name server has acknowledged the registration of the table as of `generation`.
    pub(crate) fn note(&self, name_server: &str, generation: u64) {
        self.acks
            .send_if_modified(|acks| acks.insert(name_server.to_owned(), generation) != Some(generation));
    }

    /// Makes the tasks that register with name servers read `namesrvAddr` again.
    pub(crate) fn change_name_servers(&self) {
        self.name_servers.send_replace(());
    }

    /// Returns a receiver that is notified of later changes of `namesrvAddr`.
    pub(crate) fn name_servers(&self) -> watch::Receiver<()> {
        self.name_servers.subscribe()
    }

    /// Removes a name server that cannot be reached, so that no request waits for it, as in Java (`getAvailableNameSrvList`).
    pub(crate) fn lose(&self, name_server: &str) {
        self.acks.send_if_modified(|acks| acks.remove(name_server).is_some());
    }

    /// Whether all reachable name servers have acknowledged `generation`.
    pub(crate) fn is_known(&self, generation: u64) -> bool {
        is_known(&self.acks.borrow(), generation)
    }

    /// The reachable name servers.
    #[cfg(test)]
    pub(crate) fn reached(&self) -> Vec<String> {
        self.acks.borrow().keys().cloned().collect()
    }

    /// Waits until all reachable name servers have acknowledged `generation`, at most for `patience`. A name server that took
    /// longer is removed, so that no request waits for it until it answers again.
    pub(crate) async fn wait(&self, generation: u64, patience: Duration) {
        let mut acks = self.acks.subscribe();
        let known = acks.wait_for(|acks| is_known(acks, generation));
        if within(patience, known).await.is_none() {
            self.acks.send_modify(|acks| {
                for (name_server, _) in acks.extract_if(.., |_, known| *known < generation) {
                    tracing::warn!(%name_server, "the name server does not answer; it may not know new topics yet");
                }
            });
        }
    }
}

fn is_known(acks: &BTreeMap<String, u64>, generation: u64) -> bool {
    acks.values().all(|known| *known >= generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_that_is_silent_is_waited_for_once() {
        let acks = RegistrationAcks::default();
        assert!(acks.is_known(9), "there is none");
        acks.note("one", 3);
        acks.note("two", 2);
        assert!(acks.is_known(2) && !acks.is_known(3));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(acks.wait(3, Duration::from_millis(1)));
        assert!(acks.is_known(3) && !acks.is_known(4), "it was the second one");
        acks.note("two", 3);
        acks.note("one", 4);
        assert!(!acks.is_known(4), "it answered");
        acks.lose("two");
        assert!(acks.is_known(4));
    }
}
