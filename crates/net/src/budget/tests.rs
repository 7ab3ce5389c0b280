//! Tests which connections are not read and which are closed, without sockets.

use super::*;
use crate::Limits;

const MIB: usize = 1 << 20;

struct Connections {
    budget: Arc<Budget>,
    peers: Vec<Arc<ConnectionHandle>>,
}

impl Connections {
    /// Creates `count` connections that hold nothing, in a budget of 16 MiB.
    fn new(count: u64) -> Self {
        let budget = Budget::new(16 * MIB);
        let open = |id| {
            let address = ([127, 0, 0, 1], 1).into();
            let peer = Arc::new(ConnectionHandle::new(
                id,
                (address, address),
                &Limits::default(),
                Arc::default(),
                budget.clone(),
            ));
            budget.enter(&peer);
            peer
        };
        let peers = (0..count).map(open).collect();
        Self { budget, peers }
    }

    /// The connection holds `bytes` bytes and just moved one.
    fn busy(&self, index: usize, bytes: usize) {
        self.peers[index].holding.note(bytes, Duration::from_secs(3600));
    }

    /// The connection holds `bytes` bytes and moved none for long.
    fn idle(&self, index: usize, bytes: usize) {
        self.peers[index].holding.note(bytes, Duration::ZERO);
    }

    fn waiting(&self) -> Vec<bool> {
        self.peers.iter().map(|peer| peer.waits_for_memory()).collect()
    }

    fn closed(&self) -> Vec<usize> {
        (0..self.peers.len()).filter(|index| self.peers[*index].is_closed()).collect()
    }
}

#[test]
fn what_is_held_is_counted_in_pages_and_given_back() {
    let all = Connections::new(2);
    for (bytes, counted) in [(1, 4096), (4096, 4096), (4097, 8192), (MIB, MIB), (5, 4096), (0, 0)] {
        all.busy(0, bytes);
        assert_eq!(all.budget.held(), counted);
    }
    all.busy(0, MIB);
    let charge = all.peers[1].charge(1000);
    assert_eq!((all.budget.held(), all.peers[1].held()), (MIB + 1000, 1000));
    drop(charge);
    all.budget.leave(&all.peers[0]);
    assert_eq!(all.budget.held(), 0);
    assert_eq!(all.budget.holders.load(Ordering::Relaxed), 0);
}

#[test]
fn whoever_holds_more_than_a_fair_share_waits_while_memory_is_short() {
    let all = Connections::new(4);
    all.busy(0, 8 * MIB);
    all.busy(1, 6 * MIB);
    assert_eq!(all.waiting(), [false; 4], "seven eighths");
    all.busy(2, 100 << 10);
    // The share is a third of the bound.
    assert_eq!(all.waiting(), [true, true, false, false]);
    assert!(all.closed().is_empty());
    all.busy(1, MIB);
    assert!(!all.peers[0].holding.waits() && !all.peers[1].holding.waits(), "they were woken");
    assert_eq!(all.waiting(), [false; 4]);
}

#[test]
fn the_largest_idle_one_is_closed_for_others_that_wait() {
    let all = Connections::new(4);
    all.idle(0, 3 * MIB);
    all.idle(1, 4 * MIB);
    all.busy(2, 7 * MIB + 8192);
    all.budget.close_idle();
    assert!(all.closed().is_empty(), "nobody waits");
    assert_eq!(all.waiting(), [false, false, true, false]);
    all.budget.close_idle();
    assert_eq!(all.closed(), [1]);
    all.budget.leave(&all.peers[1]);
    assert_eq!(all.budget.held(), 10 * MIB + 8192);
    assert_eq!(all.waiting(), [false; 4]);
}

#[test]
fn one_of_those_that_wait_for_each_other_is_closed() {
    let all = Connections::new(2);
    all.idle(0, 8 * MIB - 4096);
    all.idle(1, 8 * MIB);
    assert_eq!(all.waiting(), [false, false], "each has its share");
    all.idle(1, 8 * MIB + 4096);
    assert_eq!(all.waiting(), [false, true]);
    all.budget.close_idle();
    assert_eq!(all.closed(), [0], "the one that does not wait");
    let all = Connections::new(3);
    all.idle(0, 7 * MIB);
    all.idle(1, 7 * MIB + 4096);
    all.busy(2, 80 << 10);
    assert_eq!(all.waiting(), [true, true, false]);
    all.budget.close_idle();
    assert_eq!(all.closed(), [1]);
}

#[test]
fn above_the_bound_the_largest_is_closed_at_once_an_idle_one_first() {
    let all = Connections::new(3);
    all.busy(0, 12 * MIB);
    all.busy(1, 5 * MIB);
    assert_eq!(all.closed(), [0]);
    all.budget.leave(&all.peers[0]);
    assert_eq!((all.budget.held(), all.budget.held_soon()), (5 * MIB, 5 * MIB));
    let all = Connections::new(3);
    all.busy(0, 7 * MIB);
    all.idle(1, 6 * MIB);
    all.busy(2, 4 * MIB);
    assert_eq!(all.closed(), [1]);
    assert_eq!(all.budget.closed(), 1);
}

#[test]
fn a_closed_connection_counts_until_its_memory_is_free() {
    let all = Connections::new(4);
    all.busy(2, MIB);
    all.busy(0, 9 * MIB);
    all.busy(1, 8 * MIB);
    assert_eq!((all.closed(), all.budget.held()), (vec![0], 18 * MIB));
    // A connection that holds much waits meanwhile, and no second connection is closed for the same memory.
    assert_eq!(all.waiting()[1..], [true, true, false]);
    all.busy(2, 6 * MIB);
    all.budget.close_idle();
    assert_eq!(all.closed(), [0]);
    all.budget.leave(&all.peers[0]);
    assert_eq!((all.budget.held(), all.waiting()), (14 * MIB, vec![false; 4]));
}

#[test]
fn connections_that_end_or_grow_while_they_are_closed_leave_no_sum_behind() {
    let all = Connections::new(3);
    all.busy(0, 5 * MIB);
    all.budget.leave(&all.peers[0]);
    all.budget.close(&all.peers[0]);
    assert_eq!(all.budget.closing.load(Ordering::SeqCst), 0, "the connection had ended");
    all.busy(1, MIB);
    all.budget.close(&all.peers[1]);
    all.peers[1].holding.count(4 * MIB);
    all.budget.leave(&all.peers[1]);
    assert_eq!(all.budget.closing.load(Ordering::SeqCst), 0, "the connection grew while it was closed");
    assert_eq!(all.budget.held(), 0);
}

#[test]
fn a_connection_whose_requests_wait_for_the_broker_is_not_idle() {
    let all = Connections::new(3);
    all.idle(0, 6 * MIB);
    let _charge = all.peers[0].charge(7 * MIB);
    all.idle(1, 2 * MIB);
    assert_eq!(all.waiting(), [true, false, false]);
    all.budget.close_idle();
    assert_eq!(all.closed(), [1]);
}
