//! Which queues a member of a group reads (`AllocateMessageQueueAveragely`).

use crate::MessageQueue;

/// The block of `queues` for member `me`: blocks are contiguous, and the first members get one more when it does not
/// divide evenly. Nothing when `me` is not a member. Every member must pass both lists in the same order.
pub(super) fn average<'a>(queues: &'a [MessageQueue], members: &[String], me: &str) -> &'a [MessageQueue] {
    let Some(index) = members.iter().position(|member| member == me) else { return &[] };
    let (each, more) = (queues.len() / members.len(), queues.len() % members.len());
    let first = index * each + index.min(more);
    &queues[first..first + each + usize::from(index < more)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(queues: i32, members: usize) -> String {
        let queues: Vec<_> = (0..queues).map(|id| MessageQueue::new("t", "b", id)).collect();
        let members: Vec<_> = (0..members).map(|member| format!("m{member}")).collect();
        let share = |member: &String| {
            let ids = average(&queues, &members, member).iter().map(|queue| queue.queue_id.to_string());
            ids.collect::<Vec<_>>().join(",")
        };
        members.iter().map(share).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn blocks_are_contiguous_and_the_first_are_larger() {
        assert_eq!(shares(8, 1), "0,1,2,3,4,5,6,7");
        assert_eq!(shares(8, 3), "0,1,2 | 3,4,5 | 6,7");
        assert_eq!(shares(4, 4), "0 | 1 | 2 | 3");
        assert_eq!(shares(2, 3), "0 | 1 | ");
        assert_eq!(shares(0, 2), " | ");
    }

    #[test]
    fn a_stranger_gets_nothing() {
        let queues = [MessageQueue::new("t", "b", 0)];
        assert!(average(&queues, &["a".to_owned()], "b").is_empty());
        assert!(average(&queues, &[], "b").is_empty());
    }
}
