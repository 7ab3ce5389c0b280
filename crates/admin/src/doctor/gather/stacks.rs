//! Gathers the stacks of members that hold messages while their group does not move, twice: a thread of a listener that stands at one
//! place in both dumps hangs there. Only clients of Java make thread dumps.

use crate::Session;
use crate::doctor::bundle::{Bundle, Group, Standing};
use crate::stats::running_info;
use crate::text::{front, threads};

/// Members whose stacks are compared.
const MEMBERS_MAX: usize = 16;
/// Threads that call listeners begin so (`ConsumeMessageConcurrentlyService`, `ConsumeMessageOrderlyService`).
const LISTENER: &str = "ConsumeMessageThread_";
/// Frame of a thread that waits for work.
const IDLE: &str = "ThreadPoolExecutor.getTask";

/// A thread dump of a member.
pub(in crate::doctor) struct Dump {
    /// Indexes of the group and of the member in the bundle.
    pub at: (usize, usize),
    broker: String,
    pub text: String,
}

/// Makes the first dumps of members that hold messages of a group with lag. `is_wanted` accepts a group by its index in
/// the bundle.
pub(in crate::doctor) async fn first(
    session: &Session,
    bundle: &Bundle,
    is_wanted: &(dyn Fn(usize) -> bool + Sync),
) -> Vec<Dump> {
    let mut dumps = Vec::new();
    for (group_at, group) in bundle
        .groups
        .iter()
        .enumerate()
        .filter(|(at, group)| super::groups::is_lagging(group) && is_wanted(*at))
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
    for Dump { at, broker, text } in first {
        let group = &bundle.groups[at.0];
        if let Some(second) = dump(session, &broker, (&group.name, &group.members[at.1].client_id)).await {
            note_standing(bundle, at, &text, &second);
        }
    }
}

/// Notes which threads of a member's listener stand at the same place in two dumps.
pub(in crate::doctor) fn note_standing(
    bundle: &mut Bundle,
    (group, member): (usize, usize),
    first: &str,
    second: &str,
) {
    let client_id = &bundle.groups[group].members[member].client_id;
    let has_member = |group: &&Group| group.connections.iter().any(|it| it.client_id == *client_id);
    let is_alone = bundle.groups.iter().filter(has_member).count() == 1;
    let group = &mut bundle.groups[group];
    group.members[member].standing = Some(standing(first, second, (&group.name, is_alone)));
}

async fn dump(session: &Session, broker: &str, of: (&str, &str)) -> Option<String> {
    running_info(session, broker, of, true).await.ok()?.jstack.filter(|text| !text.is_empty())
}

/// Threads of a group's listeners that work, and stand at the same place in both dumps. `group` has the name, and whether the
/// process has members of this group alone.
fn standing(first: &str, second: &str, group: (&str, bool)) -> Vec<Standing> {
    let before = threads(first);
    let found =
        threads(second).into_iter().filter(|thread| before.contains(thread) && !thread.contains(IDLE));
    let found = found.filter_map(|thread| {
        let (head, stack) = thread.split_once('\n').unwrap_or((&thread, ""));
        let name = head.rsplit_once(" TID: ").map_or(head, |(name, _)| name).trim();
        is_listener_of(name, group).then_some(())?;
        // Each line begins with the name of the thread once more.
        let mut frames = stack.lines().map(|line| frame(line.trim().strip_prefix(name).unwrap_or(line)));
        let at = frames.next().unwrap_or_default();
        // The method that the listener called says more than the method in which the runtime waits.
        let own =
            frames.find(|frame| !["java.", "jdk.", "sun."].iter().any(|begin| frame.starts_with(begin)));
        Some(Standing { thread: name.to_owned(), at, called_by: own.unwrap_or_default() })
    });
    found.collect()
}

/// Whether a thread calls the listeners of a group. Threads are named after the first 100 characters of their group, so that groups
/// of one process are told apart. Older clients give the threads of all groups the same name.
fn is_listener_of(thread: &str, (group, is_alone): (&str, bool)) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let Some(rest) = thread.strip_prefix(LISTENER) else { return false };
    let own = rest.strip_prefix(front(group, 100).as_str()).and_then(|rest| rest.strip_prefix('_'));
    own.is_some_and(is_number) || is_alone && is_number(rest)
}

/// The method and place of a line of a stack, without the class loader and module that Java 9 and later write before the class.
fn frame(line: &str) -> String {
    let mut frame = line.trim();
    // The class of a lambda has a slash of its own.
    while let Some((before, rest)) = frame.split_once('/').filter(|(before, _)| !before.contains(['$', '(']))
    {
        frame = if before.is_empty() { rest.trim_start_matches('/') } else { rest };
    }
    frame.to_owned()
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
                "java.base@17.0.1/java.lang.Thread.sleep(Native Method)",
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
        // Threads of another group of the same process, and of a group whose name begins alike.
        let others = ["ConsumeMessageThread_Other_1", "ConsumeMessageThread_G_2_1", "ConsumeMessageThread_1"];
        let others = others.map(|name| thread(name, &["shop.Other.wait(Other.java:3)"])).concat();
        let selector = thread("NettyClientSelector_1", &["sun.nio.ch.EPoll.wait(EPoll.java:-2)"]);
        let other = others + &selector;
        let moves = |line: &str| thread("ConsumeMessageThread_G_3", &[line]);
        let first =
            [&hangs, &idle, &other, &moves("shop.Billing.a(Billing.java:1)")].map(String::as_str).concat();
        let second =
            [&hangs, &idle, &other, &moves("shop.Billing.b(Billing.java:2)")].map(String::as_str).concat();
        let expected = Standing {
            thread: "ConsumeMessageThread_G_1".to_owned(),
            at: "java.lang.Thread.sleep(Native Method)".to_owned(),
            called_by: "shop.Billing.charge(Billing.java:42)".to_owned(),
        };
        assert_eq!(standing(&first, &second, ("G", false)), [expected]);
        assert!(standing("", &second, ("G", false)).is_empty());
        let frames = [
            ("app//shop.Billing.charge(Billing.java:42)", "shop.Billing.charge(Billing.java:42)"),
            ("java.base/java.lang.Thread.sleep(Native Method)", "java.lang.Thread.sleep(Native Method)"),
            ("app//shop.A$$Lambda/0x01.run(Unknown Source)", "shop.A$$Lambda/0x01.run(Unknown Source)"),
        ];
        assert!(is_listener_of("ConsumeMessageThread_7", ("G", true)));
        frames.iter().for_each(|(line, expected)| assert_eq!(frame(line), *expected));
    }
}
