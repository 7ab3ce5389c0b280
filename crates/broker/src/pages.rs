//! Pages of the tables of topics, groups and queue locks, for operators of clusters with very many entries. A page
//! has the requested number of rows, filtered by a part of the name, and ordered by name or by a figure. The request
//! is Vostok's own (`VOSTOK_PAGE`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};
use store::Queue;
use wire::codes::response;
use wire::names::LIGHT_PREFIX;

use crate::parts::{Figures, OperatorParts, Runtime, Sessions, Tables};
use crate::state::Name;
use crate::topics::attributes::MESSAGE_TYPE;
use crate::{Refusal, Result};

/// Rows of a page without a number in the request.
const ROWS: usize = 100;
/// Most rows of a page.
const ROWS_MAX: usize = 2000;
/// Most names that a search examines while it keeps the table locked.
const PART: usize = if cfg!(test) { 2 } else { 4096 };
/// Number of parts that the search of a request examines: a million names. A search without a match would occupy an
/// operators' thread for all names. So the caller requests the rest in a new search.
const PARTS_MAX: usize = if cfg!(test) { 2 } else { 256 };

/// Reads up to `count` names after a start name, and passes each matching name to the callback until it returns
/// false. Returns the last name if the table may hold more.
type ReadPart<'p> = dyn Fn(&str, usize, &mut dyn FnMut(&str) -> bool) -> Option<String> + 'p;

/// Number of topics from which on the order of topics by messages is stored, because computing it for each
/// page takes too long.
const RANKED_MIN: usize = if cfg!(test) { 20 } else { 100_000 };

/// Selection of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// Text that a name must contain.
    pub contains: &'a str,
    /// Name behind which the page begins, for pages in the order of names.
    pub after: &'a str,
    /// Most rows of the page.
    pub limit: Option<usize>,
    /// `name`, or a figure of the rows, the largest first.
    pub sort: &'a str,
}

/// The page of a table.
///
/// # Errors
/// `INVALID_PARAMETER`: there is no such table, it is not sorted so, or `after` is given beside a figure.
pub(crate) fn page(parts: &OperatorParts, table: &str, page: Page<'_>) -> Result<Value> {
    let figure = match table {
        "topics" => "messages",
        "groups" => "lag",
        "locks" => return Ok(locks(&parts.tables, &parts.runtime, page)),
        _ => return Err(invalid(format!("expected topics, groups or locks as table, found {table}"))),
    };
    let by_figure = page.sort == figure;
    if !by_figure && page.sort != "name" {
        return Err(invalid(format!("expected name or {figure} as sort, found {}", page.sort)));
    }
    if by_figure && !page.after.is_empty() {
        return Err(invalid("expected after only together with sort=name".to_owned()));
    }
    Ok(if table == "topics" {
        topics(&parts.tables, &parts.figures, page, by_figure)
    } else {
        groups(&parts.tables, &parts.sessions, page, by_figure)
    })
}

fn invalid(remark: String) -> Refusal {
    Refusal::new(response::INVALID_PARAMETER, remark)
}

impl Page<'_> {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(ROWS).min(ROWS_MAX)
    }

    /// Returns the names of the page in order. Also returns the name behind which to search on, if not all
    /// names were examined.
    fn by_name(&self, read_part: &ReadPart<'_>) -> (Vec<String>, Option<String>) {
        let limit = self.limit();
        let mut names = Vec::new();
        if limit == 0 {
            return (names, None);
        }
        let mut take = |name: &str| {
            names.push(name.to_owned());
            names.len() < limit
        };
        if self.contains.is_empty() {
            read_part(self.after, limit, &mut take);
            return (names, None);
        }
        let mut last = Some(self.after.to_owned());
        for _ in 0..PARTS_MAX {
            let Some(after) = last else { break };
            last = read_part(&after, PART, &mut take);
        }
        (names, last)
    }

    /// Returns the `count` names with the largest figures, the largest first.
    fn by_figure(&self, count: usize, read_part: &ReadPart<'_>, figure: impl Fn(&str) -> i64) -> Vec<String> {
        // The name to give up first is on top: of those with the smallest figure the last one.
        let mut kept: BinaryHeap<(Reverse<i64>, String)> = BinaryHeap::with_capacity(count + 1);
        let mut look = |name: &str| {
            let figure = figure(name);
            // Names come in order: of equal figures that of a later name is given up, mostly without a comparison of names.
            let is_larger = kept.peek().is_some_and(|(Reverse(least), _)| figure > *least);
            if kept.len() < count || is_larger {
                kept.push((Reverse(figure), name.to_owned()));
            }
            if kept.len() > count {
                kept.pop();
            }
            true
        };
        let mut last = Some(String::new());
        while let Some(after) = last {
            last = read_part(&after, PART, &mut look);
        }
        kept.into_sorted_vec().into_iter().map(|(_, name)| name).collect()
    }
}

fn topics(tables: &Tables, figures: &Figures, page: Page<'_>, by_messages: bool) -> Value {
    let messages = |name: &str| i64::try_from(messages_of(&tables.store, name)).unwrap_or(i64::MAX);
    let (names, next) = match by_messages {
        true if page.contains.is_empty() && is_ranked(tables) => (largest_topics(tables, page.limit()), None),
        true => (topics_by_messages(tables, page, page.limit()), None),
        false => page.by_name(&|after, count, each| tables.topics.search(after, page.contains, count, each)),
    };
    let delivered = delivered_per_second(figures, &names);
    let rows = names.iter().filter_map(|name| {
        let config = &tables.topics.find(name)?.config;
        let message_type = config.attributes.get(MESSAGE_TYPE).map_or("NORMAL", String::as_str);
        Some(json!({
            "topic": name,
            "readQueues": config.read_queue_nums,
            "writeQueues": config.write_queue_nums,
            "perm": config.perm,
            "messages": messages(name),
            "messageType": message_type,
            "inTps": figures.stats.tps(Name::TopicPutNums, name),
            "outTps": delivered.get(name.as_str()).copied().unwrap_or_default(),
        }))
    });
    page_body(rows, next)
}

/// Messages of topics that are delivered to all groups per second, by topic.
fn delivered_per_second<'a>(figures: &Figures, names: &'a [String]) -> HashMap<&'a str, f64> {
    let tables = figures.stats.tables();
    let mut rates: HashMap<&str, f64> = names.iter().map(|name| (name.as_str(), 0.0)).collect();
    for key in tables.got.keys() {
        // A read copies the samples of a counter, so only those of the page are read.
        let Some(rate) = key.split_once('@').and_then(|(topic, _)| rates.get_mut(topic)) else { continue };
        *rate += tables.windows.read(Name::GroupGetNums, key).map_or(0.0, |read| read.minute.tps);
    }
    rates
}

/// The number of messages that a topic ever got.
fn messages_of(store: &store::Store, topic: &str) -> u64 {
    store.topic_end(topic).unwrap_or_default()
}

/// Returns `count` topics for a page by their number of messages. Reads the ends of all their queues.
fn topics_by_messages(tables: &Tables, page: Page<'_>, count: usize) -> Vec<String> {
    let read_part = |after: &str, count, each: &mut dyn FnMut(&str) -> bool| {
        tables.topics.search(after, page.contains, count, each)
    };
    page.by_figure(count, &read_part, |name| {
        i64::try_from(messages_of(&tables.store, name)).unwrap_or(i64::MAX)
    })
}

fn is_ranked(tables: &Tables) -> bool {
    tables.topics.count() >= RANKED_MIN
}

/// Returns the names of the `count` topics with the most messages, the largest first.
fn largest_topics(tables: &Tables, count: usize) -> Vec<String> {
    let messages = |name: &str| tables.topics.find(name).map(|_| messages_of(&tables.store, name));
    let all = Page { contains: "", after: "", limit: None, sort: "messages" };
    tables.ranking.names(count, messages, |most| topics_by_messages(tables, all, most))
}

/// Finds the topics with the most messages, if there are so many topics that the first page in this order
/// would wait for the search.
pub(crate) fn rank_topics(tables: &Tables) {
    if is_ranked(tables) && !tables.ranking.is_known() {
        largest_topics(tables, 0);
    }
}

/// The body of an answer: the rows of a page. `next` is the name behind which the rest of a search begins.
fn page_body(rows: impl Iterator<Item = Value>, next: Option<String>) -> Value {
    let rows: Vec<Value> = rows.collect();
    match next {
        Some(next) => json!({ "rows": rows, "next": next }),
        None => json!({ "rows": rows }),
    }
}

/// Number of messages that a group has not consumed, in the topics and queues of [`progress::consume_stats`] and in light queues.
/// Calls `behind` with each queue with unconsumed messages, the committed offset and the end of the queue.
fn lag_of(
    tables: &Tables,
    sessions: &Sessions,
    group: &str,
    mut behind: impl FnMut(&Arc<Queue>, (i64, i64)),
) -> i64 {
    let mut sum = 0;
    let mut add = |topic: &str, queue_id: i32, offset: i64| {
        let Some(queue) = tables.store.find_queue(topic, queue_id) else { return };
        let end = queue.max().to_i64();
        if end > offset {
            behind(&queue, (offset, end));
            sum += end - offset;
        }
    };
    for topic in tables.offsets.topics_of(group) {
        match tables.topics.find(&topic) {
            Some(found) if sessions.clients.is_current(group, &topic) => {
                // A queue without an offset is consumed from its first message on.
                for queue_id in 0..found.config.read_queue_nums {
                    let offsets = tables.offsets.offsets_of(group, &topic, queue_id);
                    add(&topic, queue_id, offsets.committed.max(0));
                }
            }
            Some(_) => {}
            None => tables.offsets.places(group, &topic).into_iter().for_each(|(id, at)| add(&topic, id, at)),
        }
    }
    sum
}

/// Store time of the oldest unconsumed message of a group, in ms since the epoch. The flag tells whether the message that the group
/// selects may be newer. `None` if no message waits, or if the time of a queue with messages is unknown. May read the disk.
fn unconsumed(tables: &Tables, sessions: &Sessions, group: &str) -> Option<(i64, bool)> {
    let mut places = Vec::new();
    lag_of(tables, sessions, group, |queue, range| places.push((queue.clone(), range)));
    let times = places.iter().map(|(queue, range)| {
        let (ms, is_bound) = sessions.unconsumed_time(&tables.store, group, queue, *range);
        (ms >= 0).then_some((ms, is_bound))
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().filter(|(ms, _)| *ms > 0).min()
}

fn groups(tables: &Tables, sessions: &Sessions, page: Page<'_>, by_lag: bool) -> Value {
    let lag = |group: &str| lag_of(tables, sessions, group, |_, _| {});
    // The names are copied, so that the table is not locked while offsets are read.
    let read_part = |after: &str, count, each: &mut dyn FnMut(&str) -> bool| {
        let (names, last) = tables.groups.search(after, page.contains, count);
        names.iter().all(|name| each(name)).then_some(last).flatten()
    };
    let (names, next) =
        if by_lag { (page.by_figure(page.limit(), &read_part, lag), None) } else { page.by_name(&read_part) };
    let rows = names.iter().map(|group| {
        let mut row = json!({
            "group": group,
            "members": sessions.clients.client_ids(group).len(),
            // Light queues, such as lite topics, are no topics of their own.
            "topics": tables.offsets.topics_of(group).iter().filter(|it| !it.starts_with(LIGHT_PREFIX)).count(),
            "lag": lag(group),
        });
        if let Some((ms, is_bound)) = by_lag.then(|| unconsumed(tables, sessions, group)).flatten() {
            row["unconsumedTimestamp"] = ms.into();
            row["unconsumedIsBound"] = is_bound.into();
        }
        row
    });
    page_body(rows, next)
}

/// Returns the queue locks of groups. The names are those of groups, and a group may have more rows than a page.
fn locks(tables: &Tables, runtime: &Runtime, page: Page<'_>) -> Value {
    let held = tables.locks.held(page.contains, page.after, page.limit(), runtime.now_ms());
    let rows = held.into_iter().map(|held| {
        json!({
            "group": held.group,
            "topic": held.queue.topic,
            "broker": held.queue.broker_name,
            "queue": held.queue.queue_id,
            "client": &*held.client_id,
            "ageMs": held.age_ms,
        })
    });
    page_body(rows, None)
}

#[cfg(test)]
mod tests {
    use wire::body::group::SubscriptionGroupConfig;
    use wire::body::topic::TopicConfig;
    use wire::units::QueueOffset;

    use super::*;
    use crate::change::TopicChange;
    use crate::state::SAMPLE_MS;
    use crate::stats;
    use crate::testing::Fixture;
    use crate::topics::attributes;

    fn fixture() -> Fixture {
        let fixture = Fixture::new();
        for (name, count) in [("Orders", 3), ("Audit", 1), ("OrdersOld", 5)] {
            fixture.broker.tables.topics.put(TopicConfig::new(name, 2, 6), 0).unwrap();
            (0..count).for_each(|_| fixture.put(name, 1, b"body", b""));
        }
        for (group, offset) in [("Slow", 1), ("Quick", 3), ("Idle", -1)] {
            fixture.broker.tables.groups.put(SubscriptionGroupConfig::new(group), 0).unwrap();
            if offset >= 0 {
                assert!(fixture.broker.tables.offsets.commit(group, "Orders", 1, offset));
            }
        }
        fixture
    }

    /// The names of a page.
    fn names(fixture: &Fixture, table: &str, wanted: Page<'_>) -> Vec<String> {
        let found = page(&fixture.broker.operator_parts(), table, wanted).unwrap();
        let key = table.trim_end_matches('s');
        found["rows"].as_array().unwrap().iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
    }

    const ALL: Page<'_> = Page { contains: "", after: "", limit: None, sort: "name" };

    #[test]
    fn pages_go_by_name_or_figure() {
        let fixture = fixture();
        let mine = Page { contains: "Orders", ..ALL };
        assert_eq!(names(&fixture, "topics", mine), ["Orders", "OrdersOld"]);
        let first = Page { limit: Some(1), ..mine };
        assert_eq!(names(&fixture, "topics", first), ["Orders"]);
        let second = Page { after: "Orders", ..first };
        assert_eq!(names(&fixture, "topics", second), ["OrdersOld"]);
        assert_eq!(names(&fixture, "topics", Page { after: "OrdersOld", ..first }), [""; 0]);
        assert_eq!(names(&fixture, "topics", Page { limit: Some(0), ..ALL }), [""; 0]);
        let behind_audit = Page { after: "Audit", limit: Some(1), ..ALL };
        assert_eq!(names(&fixture, "topics", behind_audit), ["Orders"]);
        let busiest = Page { sort: "messages", limit: Some(2), ..ALL };
        assert_eq!(names(&fixture, "topics", busiest), ["OrdersOld", "Orders"]);
        fixture.put("OrdersNew", 0, b"body", b"");
        let with_equals = Page { sort: "messages", limit: Some(3), ..ALL };
        let sorted = names(&fixture, "topics", with_equals);
        assert_eq!(
            sorted,
            ["OrdersOld", "Orders", "Audit"],
            "of topics with as many messages the first is shown"
        );
        assert_eq!(names(&fixture, "topics", Page { limit: Some(0), ..busiest }), [""; 0]);
        let behind = Page { sort: "lag", limit: Some(1), ..ALL };
        assert_eq!(names(&fixture, "groups", behind), ["Slow"]);
        let found = page(&fixture.broker.operator_parts(), "groups", behind).unwrap();
        let queue = fixture.broker.store.find_queue("Orders", 1).unwrap();
        let waiting_ms = fixture.broker.store.store_time(&queue, QueueOffset::new(1)).unwrap().unwrap();
        let slow = json!({"group": "Slow", "members": 0, "topics": 1, "lag": 2, "unconsumedTimestamp": waiting_ms,
            "unconsumedIsBound": false});
        assert_eq!(found["rows"][0], slow);
        let by_name =
            page(&fixture.broker.operator_parts(), "groups", Page { contains: "Slow", ..ALL }).unwrap();
        assert!(
            by_name["rows"][0]["unconsumedTimestamp"].is_null(),
            "the log is not read for rows in order of names"
        );
        let found =
            page(&fixture.broker.operator_parts(), "topics", Page { contains: "Audit", ..ALL }).unwrap();
        let audit = json!({"topic": "Audit", "readQueues": 2, "writeQueues": 2, "perm": 6, "messages": 1,
            "messageType": "NORMAL", "inTps": 0.0, "outTps": 0.0});
        assert_eq!(found["rows"][0], audit);
    }

    #[test]
    fn queues_without_an_offset_count_for_the_lag_of_a_group() {
        let fixture = fixture();
        (0..4).for_each(|_| fixture.put("Orders", 0, b"body", b""));
        let wanted = Page { sort: "lag", limit: Some(1), ..ALL };
        let row = || page(&fixture.broker.operator_parts(), "groups", wanted).unwrap()["rows"][0].clone();
        assert_eq!(
            (&row()["group"], &row()["lag"]),
            (&"Slow".into(), &6.into()),
            "two of queue 1, four of queue 0"
        );
        assert!(fixture.broker.tables.offsets.commit("Slow", "%LMQ%$Orders$x", 0, 0));
        assert_eq!(row()["topics"], 1, "a lite topic is no topic");
    }

    #[test]
    fn topics_have_their_type_and_rates() {
        let fixture = fixture();
        stats::sample(&fixture.broker.tables, &fixture.broker.figures, &fixture.broker.runtime, 0);
        let ordered = attributes::parse("+message.type=FIFO").unwrap();
        let change = TopicChange::Put(TopicConfig::new("Ordered", 1, 6), ordered);
        fixture.broker.tables.topics.commit(vec![vec![change]], 1).remove(0).unwrap();
        (0..30).for_each(|_| fixture.put("Ordered", 0, b"body", b""));
        stats::sample(&fixture.broker.tables, &fixture.broker.figures, &fixture.broker.runtime, SAMPLE_MS);
        stats::sample(
            &fixture.broker.tables,
            &fixture.broker.figures,
            &fixture.broker.runtime,
            2 * SAMPLE_MS,
        );
        let found =
            page(&fixture.broker.operator_parts(), "topics", Page { contains: "Ordered", ..ALL }).unwrap();
        let row = &found["rows"][0];
        assert_eq!(row["messageType"], "FIFO");
        assert!(row["inTps"].as_f64().unwrap() > 0.0 && row["outTps"] == 0.0, "{row}");
    }

    #[test]
    fn the_order_of_very_many_topics_is_kept() {
        let fixture = Fixture::new();
        stats::sample(&fixture.broker.tables, &fixture.broker.figures, &fixture.broker.runtime, 0);
        let names_of = |count| (0..count).map(|number| format!("T{number}"));
        for name in names_of(RANKED_MIN) {
            fixture.broker.tables.topics.put(TopicConfig::new(name, 1, 6), 0).unwrap();
        }
        fixture.put("T1", 0, b"body", b"");
        let most = |limit| names(&fixture, "topics", Page { sort: "messages", limit: Some(limit), ..ALL });
        assert_eq!(most(1), ["T1"]);
        (0..2).for_each(|_| fixture.put("T2", 0, b"body", b""));
        stats::sample(&fixture.broker.tables, &fixture.broker.figures, &fixture.broker.runtime, SAMPLE_MS);
        assert_eq!(most(2), ["T2", "T1"], "topics that grew are known with the next sample");
        (0..2).for_each(|_| fixture.put("T1", 0, b"body", b""));
        assert_eq!(most(2), ["T1", "T2"], "the figures of rows are the present ones");
        fixture.broker.tables.topics.put(TopicConfig::new("New", 1, 6), 0).unwrap();
        (0..4).for_each(|_| fixture.put("New", 0, b"body", b""));
        assert_eq!(most(1), ["T1"]);
        stats::sample(
            &fixture.broker.tables,
            &fixture.broker.figures,
            &fixture.broker.runtime,
            2 * SAMPLE_MS,
        );
        assert_eq!(most(1), ["New"]);
        fixture.broker.tables.topics.commit(vec![vec![TopicChange::Remove("New".to_owned())]], 1);
        assert_eq!(most(1), ["T1"]);
    }

    #[test]
    fn a_search_looks_at_a_bounded_number_of_names_and_tells_where_to_go_on() {
        let fixture = Fixture::new();
        (10..20).for_each(|number| {
            fixture.broker.tables.topics.put(TopicConfig::new(format!("T{number}"), 1, 6), 0).unwrap();
        });
        let ask = |after, limit| {
            let wanted = Page { contains: "8", after, limit: Some(limit), ..ALL };
            let found = page(&fixture.broker.operator_parts(), "topics", wanted).unwrap();
            (found["rows"].as_array().unwrap().len(), found["next"].as_str().map(str::to_owned))
        };
        let next = |name: &str| Some(name.to_owned());
        assert_eq!(ask("", 9), (0, next("T13")), "four names were looked at");
        assert_eq!(ask("T13", 9), (0, next("T17")));
        assert_eq!(ask("T17", 9), (1, None), "the table is over");
        assert_eq!(ask("T14", 1), (1, None), "the page is full");
        assert_eq!(ask("T15", 2), (1, next("T19")), "nobody knows what comes behind");
        assert_eq!(ask("T19", 1), (0, None));
    }

    #[test]
    fn locks_are_told_by_group_with_their_holders() {
        let fixture = fixture();
        let queue = wire::body::MessageQueue::new("Orders", "a", 1);
        fixture.broker.tables.locks.lock("Slow", "client-1", vec![queue], fixture.broker.runtime.now_ms());
        let found =
            page(&fixture.broker.operator_parts(), "locks", Page { contains: "Slow", ..ALL }).unwrap();
        let row = &found["rows"][0];
        assert_eq!(
            (&row["client"], &row["topic"], &row["queue"]),
            (&json!("client-1"), &json!("Orders"), &json!(1))
        );
        assert_eq!(names_of_locks(&found), ["Slow"]);
        let others = page(&fixture.broker.operator_parts(), "locks", Page { after: "Slow", ..ALL }).unwrap();
        assert_eq!(names_of_locks(&others), [""; 0]);
    }

    fn names_of_locks(found: &Value) -> Vec<&str> {
        found["rows"].as_array().unwrap().iter().map(|row| row["group"].as_str().unwrap()).collect()
    }

    #[test]
    fn what_cannot_be_paged_is_refused() {
        let fixture = fixture();
        let refused = |table, wanted| {
            page(&fixture.broker.operator_parts(), table, wanted).unwrap_err().remark.into_owned()
        };
        assert_eq!(refused("queues", ALL), "expected topics, groups or locks as table, found queues");
        assert_eq!(
            refused("groups", Page { sort: "messages", ..ALL }),
            "expected name or lag as sort, found messages"
        );
        assert_eq!(
            refused("topics", Page { sort: "messages", after: "A", ..ALL }),
            "expected after only together with sort=name"
        );
    }
}
