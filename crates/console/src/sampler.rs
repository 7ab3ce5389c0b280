//! Tasks that keep the live figures up to date.

mod objects;

pub(crate) use objects::sample_objects;

use crate::answers::now_ms;
use crate::app::App;
use crate::history::Kind;
use crate::lag::{GROUPS_MAX, Lag};
use crate::live::TOPICS_COUNTED;
use crate::refusal::KEYS;
use admin::{Arguments, BrokerProgress, BrokerRow, GroupName, Memory, TopicRates, TopicRow};
use std::any::Any;
use std::time::Duration;

/// Least time between samples while a page is open, and while no page is open, ms.
const LIVE_MS: i64 = 1000;
const IDLE_MS: i64 = 10_000;
/// Time between samples while a broker refuses the console, ms. A broker lets an address fail ten times a minute before it slows
/// down its answers to users whose names failed there, and these may be the users of other programs on this machine.
const REFUSED_MS: i64 = 60_000;
/// Least time from one sample to the next, in multiples of the time that a sample takes: the figures of a broker with
/// very many topics cost the broker much.
const SAMPLE_SHARE: i64 = 10;
/// Time after which a broker's answer is not waited for any more (`client::admin`), ms.
const SILENT_MS: i64 = 5000;
/// Topics, and groups, from which on the doctor looks at the servers alone, because it asks for each of the others.
const DOCTOR_NAMES_MAX: usize = 2000;
/// Time between two looks at all topics, and at all groups, ms: with a visitor, and without a visitor. The third number is the least
/// pause in multiples of the time of a look.
const NAMES_LIVE_MS: i64 = 10_000;
const NAMES_IDLE_MS: i64 = 60_000;
const NAMES_SHARE: i64 = 60;
/// Age of the verdict after which the doctor runs again, ms: with a visitor, and without a visitor. The third number is the least
/// pause in multiples of the time of a run. A hanging listener is on an open page within ten seconds: one pause until the first run,
/// six seconds without a commit, and another pause.
const DOCTOR_LIVE_MS: i64 = 1500;
const DOCTOR_IDLE_MS: i64 = 60_000;
const DOCTOR_SHARE: i64 = 3;
/// Time after which the topics and groups are counted again.
const DOCTOR_COUNT_MS: i64 = 60_000;

/// Samples all brokers for ever.
pub(crate) async fn sample_brokers(app: &App) {
    let (mut is_warned, mut took_ms) = (false, 0);
    loop {
        let begun_ms = now_ms();
        let answer = ask::<Vec<BrokerRow>>(app, ("cluster", "list"), &Arguments::default()).await;
        let has_waited = answer.as_ref().map_or(true, |brokers| brokers.iter().any(is_silent));
        took_ms = load_ms(has_waited, now_ms() - begun_ms, took_ms);
        app.live.take(now_ms(), answer);
        let is_refused = app.live.sample_unwatched().is_refused();
        if is_refused && !std::mem::replace(&mut is_warned, true) {
            tracing::warn!("a broker refuses the console: {KEYS}");
        }
        // A look at the overview must not wait for the end of an idle step.
        loop {
            let step_ms = step_ms(is_refused, app.live.is_watched(), took_ms);
            let left_ms = step_ms - (now_ms() - begun_ms);
            if left_ms <= 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(left_ms.clamp(1, 500).unsigned_abs())).await;
        }
    }
}

/// The time that counts as the load of a sample or run, ms: its own time. If the console waited for a server that does not answer, which
/// is no load, the time of the last sample or run counts.
fn load_ms(has_waited: bool, took_ms: i64, last_ms: i64) -> i64 {
    if has_waited && took_ms >= SILENT_MS { last_ms } else { took_ms }
}

/// Time from one sample to the next, ms, when a sample takes so long.
fn step_ms(is_refused: bool, is_watched: bool, took_ms: i64) -> i64 {
    let least_ms = match (is_refused, is_watched) {
        (true, _) => REFUSED_MS,
        (false, true) => LIVE_MS,
        (false, false) => IDLE_MS,
    };
    least_ms.max(took_ms * SAMPLE_SHARE)
}

/// Waits until a visitor or the time asks for the next look at all topics or groups.
async fn await_names(app: &App, begun_ms: i64) {
    let took_ms = now_ms() - begun_ms;
    loop {
        let least_ms = if app.live.is_watched() { NAMES_LIVE_MS } else { NAMES_IDLE_MS };
        if now_ms() - begun_ms >= least_ms.max(took_ms * NAMES_SHARE) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Fetches the rates of topics in an endless loop, while no broker refuses the console.
pub(crate) async fn sample_topics(app: &App) {
    loop {
        let begun_ms = now_ms();
        if !app.live.sample_unwatched().is_refused() {
            look_at_topics(app).await;
        }
        await_names(app, begun_ms).await;
    }
}

/// Looks at a page of topics. Of brokers that do not count messages, some topics are asked for their rates.
async fn look_at_topics(app: &App) {
    let page = page(&app.live.cursor(), TOPICS_COUNTED);
    let answer = ask::<Vec<TopicRow>>(app, ("topic", "list"), &page).await.unwrap_or_default();
    let messages = |row: &TopicRow| row.figures.as_ref().and_then(|figures| figures.messages);
    let counts: Vec<_> = answer.iter().map(|row| (row.topic.clone(), messages(row))).collect();
    let others = app.live.next_topics(now_ms(), &counts);
    for row in &answer {
        let out_tps = row.figures.as_ref().and_then(|figures| figures.out_tps);
        app.live.add((Kind::Topic, &row.topic), now_ms(), &[None, out_tps]);
    }
    for topic in others {
        let mut arguments = Arguments::default();
        arguments.set("topic", topic.as_str());
        let rates = ask::<Vec<TopicRates>>(app, ("topic", "rates"), &arguments).await.unwrap_or_default();
        app.live.take_topic(now_ms(), &topic, rates.first().map_or(0.0, |row| row.in_tps));
        let out_tps = rates.iter().map(|row| row.out_tps).sum();
        app.live.add((Kind::Topic, &topic), now_ms(), &[None, Some(out_tps)]);
    }
}

/// Fetches the doctor's verdict in an endless loop, rarely while a server refuses the console.
pub(crate) async fn sample_health(app: &App) {
    let (mut begun_ms, mut took_ms, mut counted_ms, mut is_small, mut is_refused) = (0, 0, 0, false, false);
    let mut memory = Memory::default();
    loop {
        let left_ms = begun_ms + doctor_wait_ms(is_refused, app.live.is_watched(), took_ms) - now_ms();
        if app.live.take_wish() || left_ms <= 0 {
            if now_ms() - counted_ms >= DOCTOR_COUNT_MS {
                (counted_ms, is_small) = (now_ms(), has_few_names(app).await);
            }
            begun_ms = now_ms();
            let verdict = admin::diagnose(&app.cluster.session(false), &mut memory, !is_small).await;
            let has_waited = verdict.findings.iter().any(|finding| finding.code.ends_with("-silent"));
            is_refused = verdict.findings.iter().any(refuses_console);
            took_ms = load_ms(has_waited, now_ms() - begun_ms, took_ms);
            app.live.take_verdict(verdict);
        }
        tokio::time::sleep(Duration::from_millis(left_ms.clamp(100, 500).unsigned_abs())).await;
    }
}

/// Whether a finding is a server that refuses the console. A server that is only busy may be asked again soon.
fn refuses_console(finding: &admin::Finding) -> bool {
    finding.code == "look-refused" && finding.figure.of(admin::Lang::En).contains("NO_PERMISSION")
}

/// Time between two runs of the doctor, ms, if a run takes `took_ms`.
fn doctor_wait_ms(is_refused: bool, is_watched: bool, took_ms: i64) -> i64 {
    let least_ms = match (is_refused, is_watched) {
        (true, _) => REFUSED_MS,
        (false, true) => DOCTOR_LIVE_MS,
        (false, false) => DOCTOR_IDLE_MS,
    };
    least_ms.max(took_ms * DOCTOR_SHARE)
}

/// Asks all masters for the lag of their groups in an endless loop.
pub(crate) async fn sample_lags(app: &App) {
    loop {
        let begun_ms = now_ms();
        let brokers = ask::<Vec<BrokerRow>>(app, ("cluster", "list"), &Arguments::default()).await;
        let brokers = brokers.unwrap_or_default();
        let mut arguments = page("", GROUPS_MAX);
        arguments.set("sort", "lag");
        match ask::<Vec<GroupName>>(app, ("group", "names"), &arguments).await {
            Ok(groups) => {
                let lag = |row: &GroupName| row.figures.unwrap_or_default().lag;
                let time_behind =
                    |row: &GroupName| row.figures.and_then(|it| it.time_behind).unwrap_or_default();
                let rows = groups.iter().map(|row| (row.group.as_str(), lag(row), time_behind(row)));
                let last_lag = groups.get(GROUPS_MAX - 1).map_or(0, lag);
                take_lags(app, rows, has_all_behind(&brokers, last_lag));
            }
            Err(_) => add_progress(app, &brokers).await,
        }
        await_names(app, begun_ms).await;
    }
}

fn take_lags<'a>(app: &App, rows: impl Iterator<Item = (&'a str, i64, admin::Lag)>, is_whole: bool) {
    let now_ms = now_ms();
    for (group, Lag { messages, time_behind, .. }) in app.lags.take(now_ms, rows, is_whole) {
        let values =
            [Some(messages as f64), time_behind.lag_seconds.map(|seconds| seconds as f64), None, None];
        app.live.add((Kind::Group, &group), now_ms, &values);
    }
}

/// Whether a page of the groups with the most lag has all groups that are behind: all brokers answered, and the last group of a full
/// page is not behind.
fn has_all_behind(brokers: &[BrokerRow], last_lag: i64) -> bool {
    !brokers.is_empty() && !brokers.iter().any(is_silent) && last_lag == 0
}

/// Whether a row of a broker says that it did not answer.
fn is_silent(row: &BrokerRow) -> bool {
    row.error.as_deref().is_some_and(|error| !error.is_empty())
}

/// Asks each master for the progress of all groups in all queues, because not all masters tell which groups are furthest behind.
async fn add_progress(app: &App, brokers: &[BrokerRow]) {
    let (mut answers, mut is_whole) = (Vec::new(), !brokers.is_empty());
    for row in brokers.iter().filter(|row| row.id == 0) {
        let mut arguments = Arguments::default();
        arguments.set("broker", row.address.as_str());
        // Queues of which everything is consumed are left out; with very many groups they are most of the answers.
        arguments.set("level", "1");
        let progress = ask::<BrokerProgress>(app, ("broker", "progress"), &arguments).await;
        is_whole &= progress.is_ok();
        answers.extend(progress);
    }
    let queues = answers.iter().flat_map(|progress| &progress.queues);
    take_lags(app, queues.map(|queue| (queue.group.as_str(), queue.diff, queue.lag)), is_whole);
}

/// The arguments for a page of names.
fn page(after: &str, limit: usize) -> Arguments {
    let mut arguments = Arguments::default();
    arguments.set("after", after);
    arguments.set("limit", limit.to_string());
    arguments
}

/// Whether the numbers of topics and groups are so small that a run of the doctor is no load for the brokers.
async fn has_few_names(app: &App) -> bool {
    let page = page("", DOCTOR_NAMES_MAX);
    let topics = ask::<Vec<TopicRow>>(app, ("topic", "list"), &page);
    let groups = ask::<Vec<GroupName>>(app, ("group", "names"), &page);
    let (topics, groups) = tokio::join!(topics, groups);
    let counts = [topics.map_or(0, |topics| topics.len()), groups.map_or(0, |groups| groups.len())];
    counts.iter().all(|count| *count < DOCTOR_NAMES_MAX)
}

/// The answer of an operation in the operation's own type.
async fn ask<T: Any>(app: &App, (noun, verb): (&str, &str), arguments: &Arguments) -> Result<T, String> {
    let operation = admin::operation(noun, verb).ok_or("no such operation")?;
    operation.perform_typed(&app.cluster.session(false), arguments).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(error: Option<&str>) -> BrokerRow {
        let mut row = BrokerRow::default();
        row.error = error.map(str::to_owned);
        row
    }

    #[test]
    fn a_refused_console_asks_once_a_minute() {
        assert_eq!([step_ms(false, true, 1), step_ms(false, false, 1)], [1000, 10_000]);
        assert_eq!([step_ms(true, true, 1), step_ms(true, false, 1)], [60_000; 2]);
        assert_eq!(step_ms(false, true, 500), 5000);
    }

    #[test]
    fn the_doctor_looks_more_often_while_somebody_watches() {
        assert_eq!([doctor_wait_ms(false, true, 300), doctor_wait_ms(false, false, 300)], [1500, 60_000]);
        assert_eq!(
            [doctor_wait_ms(false, true, 4000), doctor_wait_ms(false, false, 30_000)],
            [12_000, 90_000]
        );
        assert_eq!(doctor_wait_ms(true, true, 300), 60_000);
    }

    #[test]
    fn the_time_of_a_broker_that_does_not_answer_is_not_multiplied() {
        assert_eq!(
            [load_ms(true, 5010, 20), load_ms(true, 300, 20), load_ms(false, 5010, 20)],
            [20, 300, 5010]
        );
    }

    #[test]
    fn groups_that_are_not_told_of_are_known_not_to_be_behind_only_if_everybody_answered() {
        let well = [broker(Some("")), broker(None)];
        assert!(has_all_behind(&well, 0) && !has_all_behind(&well, 1));
        assert!(!has_all_behind(&[broker(None), broker(Some("no answer"))], 0) && !has_all_behind(&[], 0));
    }
}
