//! Operations on clusters.

use crate::arguments::{COUNT, INTERVAL, TEST_SIZE, optional, switch};
use crate::message::to_clusters;
use crate::operation::{Operation, Typed, operations};
use crate::request::for_each;
use crate::text::Table;
use crate::{Arguments, Error, Session};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const HOUR_MS: f64 = 3_600_000.0;

/// The operations on clusters.
pub(crate) const OPERATIONS: &[Operation] = operations! { "cluster":
    "list", Look, ["clusterList"], "List clusters and brokers with their load",
        [optional("cluster", ("c", "clusterName"), "only this cluster"),
         switch("more", ("m", "moreStats"), "messages of yesterday and today; only counts for mqadmin"), INTERVAL], list;
    "send-time", Change, ["clusterRT"], "Send messages to the topics named as the broker sets, and time them",
        [COUNT, TEST_SIZE, optional("cluster", ("c", "cluster"), "only this cluster"),
         optional("log", ("p", "print log"), "true for mqadmin to print lines for logs"),
         optional("room", ("m", "machine room"), "name of the machine room in lines for logs"), INTERVAL],
        to_clusters;
};

/// A broker and its load.
#[derive(Clone, Debug, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct BrokerRow {
    /// Cluster of the broker.
    pub cluster: String,
    /// Name of the broker set.
    pub broker: String,
    /// Id of the broker in its set; 0 for the master.
    pub id: i64,
    /// Address of the broker.
    pub address: String,
    /// Version of the broker; empty if the broker does not answer.
    pub version: String,
    /// Messages stored per second.
    pub in_tps: f64,
    /// Messages passed to consumers per second.
    pub out_tps: f64,
    /// Messages stored yesterday.
    pub in_yesterday: i64,
    /// Messages passed to consumers yesterday.
    pub out_yesterday: i64,
    /// Messages stored since midnight.
    pub in_today: i64,
    /// Messages passed to consumers since midnight.
    pub out_today: i64,
    /// Hours since the oldest message was stored.
    pub hours: f64,
    /// Share of the disk of the commit log that is in use.
    pub disk_ratio: f64,
    /// Requests that the broker refused since it started.
    pub refused: i64,
    /// Time within which 99 % of the messages are stored, in ms; absent if the broker does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put_p99_ms: Option<f64>,
    /// Whether the broker serves clients.
    pub active: bool,
    /// The runtime information of the broker.
    #[serde(skip)]
    pub(crate) figures: Figures,
    /// Error of the request to the broker; absent if the broker answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The runtime information of a broker, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(BTreeMap<String, String>);

impl Figures {
    fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }

    /// The first number of a figure, 0 without one.
    fn number(&self, name: &str) -> f64 {
        let first = self.text(name, "").split(' ').next();
        first.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Sum of the requests that were refused: by cause for brokers of Vostok, and RocketMQ's count of failed sends.
    fn refused(&self) -> i64 {
        let is_count = |name: &str| name.starts_with("refused") || name == "putMessageFailedTimes";
        self.0
            .iter()
            .filter(|(name, _)| is_count(name))
            .filter_map(|(_, count)| count.parse::<i64>().ok())
            .sum()
    }

    fn difference(&self, minuend: &str, subtrahend: &str) -> i64 {
        let number = |name| self.text(name, "0").parse::<i64>().unwrap_or_default();
        number(minuend) - number(subtrahend)
    }

    fn load(&self, tps: f64, queues: &[&str]) -> String {
        let load = queues.iter().map(|queue| {
            let size = self.text(&format!("{queue}ThreadPoolQueueSize"), "N");
            let wait = self.text(&format!("{queue}ThreadPoolQueueHeadWaitTimeMills"), "N");
            format!("{size},{wait}ms")
        });
        format!("{tps:9.2}({})", load.collect::<Vec<_>>().join("|"))
    }

    fn timer(&self) -> String {
        let [congestion, enqueue, dequeue] =
            ["timerCongestNum", "timerEnqueueTps", "timerDequeueTps"].map(|name| self.number(name));
        let (read, offset) = (self.text("timerReadBehind", "0"), self.text("timerOffsetBehind", "0"));
        format!("{read}-{offset}({:.1}w, {enqueue:.1}, {dequeue:.1})", congestion / 10_000.0)
    }
}

impl Typed for Vec<BrokerRow> {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        if arguments.is_on("more") {
            let mut table = Table::new(
                "{#Cluster Name:<16}  {#Broker Name:<32} {#InTotalYest:>14} {#OutTotalYest:>14} {#InTotalToday:>14} \
                 {#OutTotalToday:>14}",
            );
            for BrokerRow { cluster, broker, in_yesterday, out_yesterday, in_today, out_today, .. } in self {
                table.row(&[cluster, broker, in_yesterday, out_yesterday, in_today, out_today]);
            }
            return table.text;
        }
        let mut table = Table::new(
            "{#Cluster Name:<22}  {#Broker Name:<22}  {#BID:<4}  {#Addr:<22} {#Version:<16}  {#InTPS(LOAD):>16}  \
             {#OutTPS(LOAD):>30}  {#Timer(Progress):<22}  {#PCWait(ms):<11}  {#Hour:<12.2}  {#SPACE:<8.4}  {#ACTIVATED:<10}",
        );
        for row in self {
            let BrokerRow {
                cluster, broker, id, address, version, figures, hours, disk_ratio, active, ..
            } = row;
            let (load_in, load_out) =
                (figures.load(row.in_tps, &["send"]), figures.load(row.out_tps, &["pull", "ack"]));
            let (timer, wait) = (figures.timer(), figures.text("pageCacheLockTimeMills", ""));
            table.row(&[
                cluster, broker, id, address, version, &load_in, &load_out, &timer, &wait, hours, disk_ratio,
                active,
            ]);
        }
        table.text
    }
}

async fn list(session: &Session, arguments: &Arguments) -> Result<Vec<BrokerRow>, Error> {
    let members = session.members(arguments.get("cluster")).await?;
    // Several at once: one broker that does not answer must neither hide the others nor hold them up.
    let rows = for_each(members, |member| async move {
        let row = BrokerRow {
            cluster: member.cluster,
            broker: member.name,
            id: member.id,
            address: member.address,
            ..BrokerRow::default()
        };
        match session.client.broker_runtime(&row.address).await {
            Ok(figures) => with_figures(row, Figures(figures), session.now_ms),
            Err(error) => BrokerRow { error: Some(error.to_string()), ..row },
        }
    });
    Ok(rows.await)
}

fn with_figures(row: BrokerRow, figures: Figures, now_ms: i64) -> BrokerRow {
    let earliest = figures.number("earliestMessageTimeStamp");
    BrokerRow {
        version: figures.text("brokerVersionDesc", "").to_owned(),
        in_tps: figures.number("putTps"),
        out_tps: figures.number("getTransferredTps"),
        in_yesterday: figures.difference("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"),
        out_yesterday: figures.difference("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning"),
        in_today: figures.difference("msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        out_today: figures.difference("msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
        hours: if earliest > 0.0 { (now_ms as f64 - earliest) / HOUR_MS } else { 0.0 },
        disk_ratio: figures.number("commitLogDiskRatio"),
        refused: figures.refused(),
        put_p99_ms: figures.0.get("putLatency99").and_then(|text| text.parse().ok()),
        active: figures.text("brokerActive", "false") == "true",
        figures,
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ServerAnswer, with_cluster};
    use std::sync::Arc;
    use tokio::sync::Barrier;
    use wire::body::KvTable;

    #[test]
    fn brokers_are_asked_together_and_listed_in_order() {
        // Neither broker answers before the other was asked.
        let both = Arc::new(Barrier::new(2));
        let answers = move |broker: &str, _: &_| {
            let version = ("brokerVersionDesc".to_owned(), broker.to_owned());
            ServerAnswer::body(&KvTable { table: [version].into() }).map(|said| said.after(&both))
        };
        let versions = with_cluster(&["b", "a"], answers, async |session: &Session| {
            let rows = list(session, &Arguments::default()).await.unwrap();
            rows.into_iter().map(|row| row.version).collect::<String>()
        });
        assert_eq!(versions, "ab");
    }

    #[test]
    fn a_broker_is_listed_with_its_load() {
        let figures = [
            ("brokerVersionDesc", "V5_5_0"),
            ("putTps", "1.5 0.5 0.1"),
            ("sendThreadPoolQueueSize", "0"),
            ("sendThreadPoolQueueHeadWaitTimeMills", "2"),
            ("earliestMessageTimeStamp", "1000"),
            ("msgPutTotalTodayMorning", "5"),
            ("msgPutTotalTodayNow", "12"),
            ("brokerActive", "true"),
            ("refusedDiskFull", "3"),
            ("refusedBehind", "2"),
            ("putMessageFailedTimes", "1"),
            ("putLatency99", "0.25"),
        ];
        let figures = figures.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let row = BrokerRow { cluster: "C".into(), broker: "a".into(), ..BrokerRow::default() };
        let row = with_figures(row, Figures(figures.into()), 3_601_000);
        assert_eq!((row.in_tps, row.in_today, row.hours, row.active), (1.5, 7, 1.0, true));
        assert_eq!((row.refused, row.put_p99_ms), (6, Some(0.25)));
        let text = Typed::mqadmin(&vec![row], &Arguments::default());
        let cells: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells[3], "V5_5_0");
        assert_eq!(cells[4], "1.50(0,2ms)");
        assert_eq!(cells[5], "0.00(N,Nms|N,Nms)");
    }
}
