//! Gathers the stacks of members that hold messages while their group does not move, twice: a thread of a listener that stands at one
//! place in both dumps hangs there. Only clients of Java make thread dumps.

use crate::Session;
use crate::doctor::bundle::{Bundle, Standing};
use crate::stats::running_info;
use crate::text::threads;

/// Members whose stacks are compared.
const MEMBERS_MAX: usize = 16;
/// Threads that call listeners begin so (`ConsumeMessageConcurrentlyService`, `ConsumeMessageOrderlyService`).
const LISTENER: &str = "ConsumeMessageThread";
/// Where a thread waits for work.
const IDLE: &str = "ThreadPoolExecutor.getTask";

/// The first dump of a member.
pub(super) struct Dump {
    /// Places of the group and of the member in the bundle.
    at: (usize, usize),
    broker: String,
    text: String,
}

/// The first dumps of members that hold messages of a group with lag.
pub(super) async fn first(session: &Session, bundle: &Bundle) -> Vec<Dump> {
    let mut dumps = Vec::new();
    for (group_at, group) in
        bundle.groups.iter().enumerate().filter(|(_, group)| super::groups::is_lagging(group))
    {
        for (member_at, member) in group.members.iter().enumerate() {
            let holds = member.queues.iter().any(|queue| queue.cached > 0);
            let of_member = |id: &String| *id == member.client_id;
            let connection = group.connections.iter().find(|connection| of_member(&connection.client_id));
            let Some(connection) = connection.filter(|_| holds && dumps.len() < MEMBERS_MAX) else {
                continue;
            };
            let broker = connection.broker.clone();
            if let Some(text) = dump(session, &broker, (&group.name, &member.client_id)).await {
                dumps.push(Dump { at: (group_at, member_at), broker, text });
            }
        }
    }
    dumps
}

/// Makes the second dumps and notes which threads of listeners stand where they stood.
pub(super) async fn compare(session: &Session, bundle: &mut Bundle, first: Vec<Dump>) {
    for Dump { at: (group, member), broker, text } in first {
        let group = &mut bundle.groups[group];
        let (name, member) = (&group.name, &mut group.members[member]);
        let second = dump(session, &broker, (name, &member.client_id)).await;
        member.standing = second.map(|second| standing(&text, &second));
    }
}

async fn dump(session: &Session, broker: &str, of: (&str, &str)) -> Option<String> {
    running_info(session, broker, of, true).await.ok()?.jstack.filter(|text| !text.is_empty())
}

/// Threads of listeners that work, and stand at the same place in both dumps.
fn standing(first: &str, second: &str) -> Vec<Standing> {
    let before = threads(first);
    let found =
        threads(second).into_iter().filter(|thread| thread.starts_with(LISTENER) && before.contains(thread));
    let found = found.filter(|thread| !thread.contains(IDLE));
    let found = found.map(|thread| {
        let (name, stack) = thread.split_once('\n').unwrap_or((&thread, ""));
        let name = name.split_whitespace().next().unwrap_or_default().to_owned();
        // Each line begins with the name of the thread once more.
        let mut frames = stack.lines().filter_map(|line| line.split_whitespace().last());
        let at = frames.next().unwrap_or_default().to_owned();
        // What the listener itself called says more than where the runtime waits.
        let own =
            frames.find(|frame| !["java.", "jdk.", "sun."].iter().any(|begin| frame.starts_with(begin)));
        Standing { thread: name, at, called_by: own.unwrap_or_default().to_owned() }
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_and_does_not_move_is_told_with_its_place() {
        let thread = |name: &str, frames: &[&str]| {
            let lines: Vec<_> = frames.iter().map(|frame| format!("{name:<40} {frame}\n")).collect();
            format!("{name:<40} TID: 1 STATE: TIMED_WAITING\n{}\n", lines.concat())
        };
        let hangs = thread(
            "ConsumeMessageThread_G_1",
            &[
                "java.lang.Thread.sleep(Thread.java:-2)",
                "shop.Billing.charge(Billing.java:42)",
                "shop.Main.run(Main.java:7)",
            ],
        );
        let idle = thread(
            "ConsumeMessageThread_G_2",
            &[
                "sun.misc.Unsafe.park(Unsafe.java:-2)",
                "java.util.concurrent.ThreadPoolExecutor.getTask(ThreadPoolExecutor.java:1074)",
            ],
        );
        let other = thread("NettyClientSelector_1", &["sun.nio.ch.EPoll.wait(EPoll.java:-2)"]);
        let moves = |line: &str| thread("ConsumeMessageThread_G_3", &[line]);
        let first =
            [&hangs, &idle, &other, &moves("shop.Billing.a(Billing.java:1)")].map(String::as_str).concat();
        let second =
            [&hangs, &idle, &other, &moves("shop.Billing.b(Billing.java:2)")].map(String::as_str).concat();
        let expected = Standing {
            thread: "ConsumeMessageThread_G_1".to_owned(),
            at: "java.lang.Thread.sleep(Thread.java:-2)".to_owned(),
            called_by: "shop.Billing.charge(Billing.java:42)".to_owned(),
        };
        assert_eq!(standing(&first, &second), [expected]);
        assert!(standing("", &second).is_empty());
    }
}
