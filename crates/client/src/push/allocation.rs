//! Allocation of queues to the members of a group (`AllocateMessageQueueStrategy` and its classes).

use crate::MessageQueue;
use std::collections::BTreeSet;
use wire::names::RETRY_PREFIX;

/// Strategy that allocates the queues of a topic to the members of a group. All members need the same strategy.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Allocation {
    /// Blocks of neighbouring queues. If they do not divide evenly, the first members get an additional queue
    /// (`AllocateMessageQueueAveragely`).
    #[default]
    Average,
    /// Queues to the members in turn (`AllocateMessageQueueAveragelyByCircle`).
    Circle,
    /// The given queues, whatever other members exist (`AllocateMessageQueueByConfig`). Queues of retry topics, which
    /// a client of RocketMQ would leave unread, are always allocated in blocks.
    Config(BTreeSet<MessageQueue>),
    /// Queues of brokers named `room@broker` with one of these rooms: blocks, and the remaining queues one each to the
    /// first members (`AllocateMessageQueueByMachineRoom`).
    MachineRoom(BTreeSet<String>),
}

impl Allocation {
    /// The queues of one topic for member `me`; none when `me` is not among the members. Every member must pass both
    /// lists in the same order.
    pub(super) fn share(&self, queues: &[MessageQueue], members: &[String], me: &str) -> Vec<MessageQueue> {
        let Some(index) = members.iter().position(|member| member == me) else { return Vec::new() };
        match self {
            Self::Config(own) if !queues.iter().all(|queue| queue.topic.starts_with(RETRY_PREFIX)) => {
                queues.iter().filter(|queue| own.contains(queue)).cloned().collect()
            }
            Self::Average | Self::Config(_) => {
                let (each, more) = (queues.len() / members.len(), queues.len() % members.len());
                let first = index * each + index.min(more);
                queues[first..first + each + usize::from(index < more)].to_vec()
            }
            Self::Circle => queues.iter().skip(index).step_by(members.len()).cloned().collect(),
            Self::MachineRoom(rooms) => {
                let room = |queue: &&MessageQueue| {
                    queue.broker_name.split_once('@').is_some_and(|(room, _)| rooms.contains(room))
                };
                let queues: Vec<_> = queues.iter().filter(room).collect();
                let each = queues.len() / members.len();
                let block = queues.iter().skip(index * each).take(each);
                let left = queues.iter().skip(each * members.len()).skip(index).take(1);
                block.chain(left).map(|queue| (*queue).clone()).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: usize) -> Vec<String> {
        (0..count).map(|member| format!("m{member}")).collect()
    }

    fn shares(allocation: &Allocation, queues: i32, count: usize) -> String {
        let queues: Vec<_> = (0..queues).map(|id| MessageQueue::new("t", "b", id)).collect();
        shares_of(allocation, &queues, count)
    }

    fn shares_of(allocation: &Allocation, queues: &[MessageQueue], count: usize) -> String {
        let members = members(count);
        let share = |member: &String| {
            let own = allocation.share(queues, &members, member);
            own.iter().map(|queue| queue.queue_id.to_string()).collect::<Vec<_>>().join(",")
        };
        members.iter().map(share).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn blocks_are_contiguous_and_the_first_are_larger() {
        let average = Allocation::Average;
        assert_eq!(shares(&average, 8, 1), "0,1,2,3,4,5,6,7");
        assert_eq!(shares(&average, 8, 3), "0,1,2 | 3,4,5 | 6,7");
        assert_eq!(shares(&average, 4, 4), "0 | 1 | 2 | 3");
        assert_eq!(shares(&average, 2, 3), "0 | 1 | ");
        assert_eq!(shares(&average, 0, 2), " | ");
    }

    #[test]
    fn queues_go_round() {
        assert_eq!(shares(&Allocation::Circle, 8, 3), "0,3,6 | 1,4,7 | 2,5");
        assert_eq!(shares(&Allocation::Circle, 2, 3), "0 | 1 | ");
    }

    #[test]
    fn configured_queues_are_read_by_whoever_has_them() {
        let own = [1, 3, 9].map(|id| MessageQueue::new("t", "b", id));
        let other = MessageQueue::new("u", "b", 2);
        let config = Allocation::Config(own.into_iter().chain([other]).collect());
        assert_eq!(shares(&config, 4, 2), "1,3 | 1,3", "only queues that exist, and of this topic");
        let retries = [0, 1].map(|id| MessageQueue::new("%RETRY%g", "b", id));
        assert_eq!(shares_of(&config, &retries, 2), "0 | 1", "every member takes part in retries");
        let standby = Allocation::Config(BTreeSet::new());
        assert_eq!(shares(&standby, 4, 2), " | ", "who names nothing of a topic reads nothing of it");
    }

    #[test]
    fn queues_of_a_room_are_shared_in_blocks_and_the_rest_one_by_one() {
        let of = |broker: &'static str| (0..4).map(move |id| MessageQueue::new("t", broker, id));
        let queues: Vec<_> = of("east@a").chain(of("west@b")).chain(of("plain")).collect();
        let rooms = |names: &[&str]| Allocation::MachineRoom(names.iter().map(|&it| it.to_owned()).collect());
        assert_eq!(shares_of(&rooms(&["east"]), &queues, 3), "0,3 | 1 | 2");
        assert_eq!(shares_of(&rooms(&["east", "west"]), &queues, 3), "0,1,2 | 2,3,3 | 0,1");
        assert_eq!(shares_of(&rooms(&["north"]), &queues, 2), " | ");
    }

    #[test]
    fn a_stranger_gets_nothing() {
        let queues = [MessageQueue::new("t", "b", 0)];
        let all = Allocation::Config(queues.iter().cloned().collect());
        for allocation in [Allocation::Average, Allocation::Circle, all] {
            assert!(allocation.share(&queues, &["a".to_owned()], "b").is_empty());
            assert!(allocation.share(&queues, &[], "b").is_empty());
        }
    }
}
