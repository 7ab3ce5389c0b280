//! The load that runs on an agent: the orders of the lab and the agent's answers, each a line of JSON.
//!
//! After the [`super::Hello`] the lab sends [`Order::Prepare`], and the agent answers when it has found its topics.
//! Producers start at a time of the agent's own clock that is the same moment for all. Every second the lab asks all
//! agents at once for their figures since the last request; histograms are sent whole, so that their sum is exact.

use super::{line_of, now_us};
use crate::archive::{decode, encode};
use crate::generator::{Generator, IntervalSample, Payload, Workload};
use crate::load::Refusal;
use hdrhistogram::serialization::Deserializer;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Largest order in bytes.
const ORDER_BYTES_MAX: u64 = 1 << 20;
/// Time without an order after which the lab counts as lost while load runs, even if its connection is open.
const SILENCE_MAX: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 30 });
/// Most time that a start may lie in the future.
const START_MAX: Duration = Duration::from_secs(60);
/// Largest body in bytes of a workload.
const BODY_BYTES_MAX: u64 = 64 << 20;
const SIZES_MAX: usize = 100;
const TOPICS_MAX: u32 = 100_000;

/// An order of the lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Prepare the workload. Messages are stamped with the lab's clock, which is this many microseconds behind the
    /// agent's.
    Prepare(Box<Workload>, i64),
    /// Start sending at this time of the agent's clock, microseconds since 1970.
    Start(u64),
    /// Stop sending.
    Stop,
    /// Report the figures since the last request.
    Take,
}

/// The answer of an agent to [`Order::Prepare`] and [`Order::Take`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The workload is prepared.
    Ready,
    /// The figures since the last request.
    Did(Box<Did>),
    /// The order failed; holds the reason for people.
    Failed(String),
}

/// The form in which a [`IntervalSample`] is sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Did {
    lasted_ms: u64,
    counts: [u64; 6],
    in_flight: u64,
    cpu_us: u64,
    /// Send latencies and delays of sending, encoded as in interval logs.
    histograms: [String; 2],
    refusal: Option<Refusal>,
}

impl Did {
    pub fn of(sample: &IntervalSample) -> io::Result<Self> {
        let IntervalSample { sent, sent_bytes, failed, refused, consumed, consumed_bytes, .. } = *sample;
        Ok(Self {
            lasted_ms: sample.lasted_ms,
            counts: [sent, sent_bytes, failed, refused, consumed, consumed_bytes],
            in_flight: sample.in_flight,
            cpu_us: sample.cpu_us,
            histograms: [encode(&sample.latency)?, encode(&sample.late)?],
            refusal: sample.refusal.clone(),
        })
    }

    /// Decodes the figures, as those of an interval that ended at `at_ms`.
    pub fn sample(&self, at_ms: u64) -> io::Result<IntervalSample> {
        let mut deserializer = Deserializer::new();
        let [sent, sent_bytes, failed, refused, consumed, consumed_bytes] = self.counts;
        let mut sample = IntervalSample {
            at_ms,
            lasted_ms: self.lasted_ms,
            sent,
            sent_bytes,
            failed,
            refused,
            consumed,
            consumed_bytes,
            in_flight: self.in_flight,
            cpu_us: self.cpu_us,
            refusal: self.refusal.clone(),
            ..IntervalSample::default()
        };
        for (sum, text) in [&mut sample.latency, &mut sample.late].into_iter().zip(&self.histograms) {
            sum.add(decode(&mut deserializer, text)?).map_err(io::Error::other)?;
        }
        Ok(sample)
    }
}

/// Carries out the lab's orders until the connection ends or no order comes any more; then the load ends too.
pub(super) async fn obey(
    reader: &mut (impl AsyncBufRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut load = Load::default();
    let mut line = String::new();
    let ended = loop {
        line.clear();
        let mut limited = (&mut *reader).take(ORDER_BYTES_MAX);
        let read = limited.read_line(&mut line);
        let read = if load.runs { tokio::time::timeout(SILENCE_MAX, read).await } else { Ok(read.await) };
        match read {
            Ok(Ok(0)) => break Ok(()),
            Ok(Ok(_)) if line.ends_with('\n') => {}
            Ok(Ok(read)) if read as u64 == ORDER_BYTES_MAX => {
                break Err(io::Error::other(format!("an order has more than {ORDER_BYTES_MAX} bytes")));
            }
            Ok(Ok(_)) => break Err(io::Error::other("the connection ended in the middle of an order")),
            Ok(Err(error)) => break Err(error),
            Err(_) => break Err(io::Error::other("the lab asks nothing any more; the load ends")),
        }
        let order = match serde_json::from_str(&line) {
            Ok(order) => order,
            Err(error) => break Err(io::Error::other(error)),
        };
        let answer = match load.perform(order).await {
            Ok(answer) => answer,
            Err(why) => Some(Answer::Failed(why)),
        };
        if let Some(answer) = answer
            && let Err(error) = writer.write_all(&line_of(&answer)).await
        {
            break Err(error);
        }
    };
    if let Some((generator, _)) = load.prepared {
        generator.stop().await;
    }
    ended
}

/// The load that an agent runs, in its stage of preparation.
#[derive(Default)]
struct Load {
    prepared: Option<(Generator, Workload)>,
    runs: bool,
}

/// Refuses workloads beyond the limits of an agent (files, cores, sizes, topics), because every client that reaches its
/// port can send one.
fn admit(workload: &Workload) -> Result<(), String> {
    if let Payload::File(path) = &workload.payload {
        return Err(format!(
            "an agent reads no files, found payload {}: expected random or repeat",
            path.display()
        ));
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let largest = workload.sizes.0.iter().map(|(size, _)| *size).max().unwrap_or(0);
    let wrong = [
        (u64::from(workload.cores), u64::from(cores), "cores"),
        (largest, BODY_BYTES_MAX, "bytes of a body"),
        (workload.sizes.0.len() as u64, SIZES_MAX as u64, "sizes"),
        (u64::from(workload.topics), u64::from(TOPICS_MAX), "topics"),
    ];
    match wrong.into_iter().find(|(found, most, _)| found > most) {
        Some((found, most, what)) => Err(format!("{found} {what}: this agent expects at most {most}")),
        None => Ok(()),
    }
}

impl Load {
    async fn perform(&mut self, order: Order) -> Result<Option<Answer>, String> {
        let text = |error: crate::Error| error.to_string();
        match (order, &mut self.prepared) {
            (Order::Prepare(workload, ahead_us), prepared) => {
                admit(&workload)?;
                let generator = Generator::prepare(&workload).await.map_err(text)?.ahead(ahead_us);
                *prepared = Some((generator, *workload));
                Ok(Some(Answer::Ready))
            }
            (_, None) => Err("nothing was prepared".to_owned()),
            (Order::Start(at_us), Some((generator, workload))) => {
                let wait = Duration::from_micros(at_us.saturating_sub(now_us()));
                if wait > START_MAX {
                    return Err(format!("a start in {wait:?}: expected one within {START_MAX:?}"));
                }
                tokio::time::sleep(wait).await;
                generator.start_producers(workload).map_err(text)?;
                self.runs = true;
                Ok(None)
            }
            (Order::Stop, Some((generator, _))) => {
                generator.stop_producers();
                self.runs = false;
                Ok(None)
            }
            (Order::Take, Some((generator, _))) => {
                let did = Did::of(&generator.take()).map_err(|error| error.to_string())?;
                Ok(Some(Answer::Did(Box::new(did))))
            }
        }
    }
}
