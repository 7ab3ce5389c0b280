//! Delayed and timed messages: how many wait in each broker, and when they are due.

use super::find::TOOLS_GROUP;
use crate::operation::Typed;
use crate::request::{Request, for_each, number, split};
use crate::text::time;
use crate::{Error, Session};
use client::PullRequest;
use serde::Serialize;
use wire::body::{MessageQueue, parse_key_values};
use wire::codes::request;
use wire::names::{SCHEDULE_TOPIC, TIMER_TOPIC};
use wire::properties::key;

/// Runtime figures of delay levels begin so; their values are delivered and stored offsets (`ScheduleMessageService.buildRunningStats`).
const LEVEL: &str = "scheduleMessageOffset_";
/// Ends of the spans of time in which messages are counted, ms from now.
const SPANS_MS: [i64; 10] = [
    10_000,
    60_000,
    5 * 60_000,
    15 * 60_000,
    3_600_000,
    3 * 3_600_000,
    12 * 3_600_000,
    24 * 3_600_000,
    3 * 24 * 3_600_000,
    i64::MAX / 2,
];
/// Messages in the queue of timed messages that are read, the newest.
const TIMED_READ_MAX: i64 = 2000;

/// Messages that are due within a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DueCount {
    /// End of the span, ms from now. The span begins at the end of the span before.
    pub within_ms: i64,
    /// Messages.
    pub messages: i64,
}

/// Messages of a delay level, or the timed messages, of a broker.
#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// Name of the broker set.
    pub broker: String,
    /// Delay level; absent for timed messages.
    pub level: Option<i32>,
    /// Delay of the level, such as `10s`.
    pub delay: String,
    /// Messages that wait.
    pub waiting: i64,
    /// Time at which the next message is due; empty if none waits or the time is unknown.
    pub next_due: String,
    /// Messages by the time at which they are due.
    pub due: Vec<DueCount>,
    /// Messages with an unknown due time, because too many wait.
    pub unknown: i64,
}

impl Typed for Vec<Waiting> {}

/// Returns the waiting messages of all masters that answer.
pub(super) async fn due(session: &Session) -> Result<Vec<Waiting>, Error> {
    let mut masters = session.members(None).await?;
    masters.retain(|member| member.id == 0);
    let outcomes =
        for_each(masters, |member| async move { of_broker(session, &member.name, &member.address).await });
    let (rows, failures) = split(outcomes.await)?;
    session.note(failures);
    Ok(rows.into_iter().flatten().collect())
}

async fn of_broker(session: &Session, name: &str, address: &str) -> Result<Vec<Waiting>, Error> {
    let runtime = session.client.broker_runtime(address).await?;
    // Names of the delays only, which a broker may refuse to tell.
    let reply = session.look(address, &Request::new(request::GET_BROKER_CONFIG)).await;
    let settings = reply.ok().and_then(|reply| parse_key_values(&reply.body).ok()).unwrap_or_default();
    let delays = settings.get("messageDelayLevel").map(String::as_str).unwrap_or_default();
    let mut rows = Vec::new();
    for (figure, value) in &runtime {
        let level = figure.strip_prefix(LEVEL).and_then(|level| level.parse::<i32>().ok());
        let offsets = value.split_once(',').and_then(|(next, end)| {
            Some((next.trim().parse::<i64>().ok()?, end.trim().parse::<i64>().ok()?))
        });
        let (Some(level), Some((next, end))) = (level, offsets) else { continue };
        let place = usize::try_from(level - 1).unwrap_or(usize::MAX);
        let delay = delays.split_whitespace().nth(place).unwrap_or_default();
        rows.push(of_level(session, (name, address), (level, delay), (next, end)).await);
    }
    rows.sort_by_key(|row| row.level);
    let pending = runtime.get("timerCongestNum").and_then(|text| text.parse().ok());
    if let Some(pending) = pending.filter(|pending| *pending > 0) {
        rows.push(timed(session, name, pending).await);
    }
    Ok(rows)
}

/// The waiting messages of a delay level. A level stores its messages in the order of their due times, so their number
/// up to a time is found by store time.
async fn of_level(
    session: &Session,
    (name, address): (&str, &str),
    (level, delay): (i32, &str),
    (next, end): (i64, i64),
) -> Waiting {
    let mut row = Waiting {
        broker: name.to_owned(),
        level: Some(level),
        delay: delay.to_owned(),
        waiting: (end - next).max(0),
        next_due: String::new(),
        due: Vec::new(),
        unknown: 0,
    };
    let delay_ms = delay_ms(delay).filter(|_| row.waiting > 0);
    let Some(delay_ms) = delay_ms else {
        row.unknown = row.waiting;
        return row;
    };
    let queue = MessageQueue::new(SCHEDULE_TOPIC, name, level - 1);
    let pull = PullRequest { messages_max: 1, ..PullRequest::new(TOOLS_GROUP, &queue, next) };
    let first = session.client.pull(&pull).await.ok().and_then(|pulled| pulled.messages.into_iter().next());
    row.next_due = first.map(|message| time(message.store_timestamp + delay_ms)).unwrap_or_default();
    let mut before = next;
    for within_ms in SPANS_MS {
        let stored_ms = session.now_ms + within_ms - delay_ms;
        let until = match stored_ms < session.now_ms {
            false => end,
            true => {
                let ask = Request::new(request::SEARCH_OFFSET_BY_TIMESTAMP)
                    .with("topic", SCHEDULE_TOPIC)
                    .with("queueId", level - 1)
                    .with("timestamp", stored_ms + 1);
                let found = session.look(address, &ask).await;
                match found.and_then(|reply| number(address, &reply, "offset")) {
                    Ok(offset) => offset.clamp(before, end),
                    Err(_) => break,
                }
            }
        };
        row.due.push(DueCount { within_ms, messages: until - before });
        before = until;
        if until == end {
            break;
        }
    }
    row.unknown = end - before;
    row
}

/// The timed messages that wait in a broker. Only the newest messages are read for their due times.
/// `pending` is the number of timed messages that the broker reports.
async fn timed(session: &Session, name: &str, pending: i64) -> Waiting {
    let (due_ms, is_whole) = timed_times(session, name).await.unwrap_or_default();
    let (next_due, due, known) = counted(session.now_ms, due_ms);
    // The broker's figure also has messages that are being delivered.
    let pending = if is_whole { pending.min(known) } else { pending };
    Waiting {
        broker: name.to_owned(),
        level: None,
        delay: String::new(),
        waiting: pending,
        next_due,
        due,
        unknown: (pending - known).max(0),
    }
}

/// Times at which the most recently stored timed messages are due, and whether these are all timed messages.
async fn timed_times(session: &Session, name: &str) -> Result<(Vec<i64>, bool), Error> {
    let queue = MessageQueue::new(TIMER_TOPIC, name, 0);
    let end = session.client.max_offset(&queue).await?;
    let min = session.client.min_offset(&queue).await?;
    let mut offset = min.max(end - TIMED_READ_MAX);
    let (mut times, is_whole) = (Vec::new(), offset == min);
    while offset < end {
        let pulled = session.client.pull(&PullRequest::new(TOOLS_GROUP, &queue, offset)).await?;
        let due_ms = pulled.messages.iter().filter_map(|message| message.property(key::TIMER_OUT_MS));
        times.extend(due_ms.filter_map(|text| text.parse::<i64>().ok()));
        if pulled.next_offset <= offset {
            break;
        }
        offset = pulled.next_offset;
    }
    Ok((times, is_whole))
}

/// The first of several times that is not over, the number of them in each span, and the number of all.
fn counted(now_ms: i64, due_ms: Vec<i64>) -> (String, Vec<DueCount>, i64) {
    let mut waits: Vec<i64> =
        due_ms.into_iter().map(|due_ms| due_ms - now_ms).filter(|wait| *wait > 0).collect();
    waits.sort_unstable();
    let next = waits.first().map(|wait| time(now_ms + wait)).unwrap_or_default();
    let mut due = Vec::new();
    let mut before = 0;
    for within_ms in SPANS_MS {
        let until = waits.partition_point(|wait| *wait <= within_ms);
        due.push(DueCount { within_ms, messages: i64::try_from(until - before).unwrap_or(i64::MAX) });
        before = until;
        if until == waits.len() {
            break;
        }
    }
    (next, due, i64::try_from(before).unwrap_or(i64::MAX))
}

/// A delay such as `10s`, `5m`, `2h` or `1d` in milliseconds.
pub(crate) fn delay_ms(text: &str) -> Option<i64> {
    let unit = text.chars().next_back()?;
    let count: i64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let unit_s = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    count.checked_mul(unit_s * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_with_their_unit() {
        let read = ["1s", "5m", "2h", "1d", "5", "", "ms"].map(delay_ms);
        let expected = [Some(1000), Some(300_000), Some(7_200_000), Some(86_400_000), None, None, None];
        assert_eq!(read, expected);
    }

    #[test]
    fn timed_messages_are_counted_by_the_span_in_which_they_are_due() {
        let (next, due, known) =
            counted(1_000_000, vec![999_999, 1_005_000, 1_030_000, 1_031_000, 1_400_000]);
        assert_eq!((next.as_str(), known), ("1970-01-01T00:16:45.000Z", 4));
        let counts: Vec<i64> = due.iter().map(|it| it.messages).collect();
        assert_eq!(counts, [1, 2, 0, 1]);
    }
}
