//! Load that runs on an agent: what the lab tells it to do, and what it did, a line of JSON each.
//!
//! After the [`super::Hello`] the lab says [`Order::Prepare`], and the agent answers once its topics are found. Producers
//! begin at a moment given by the agent's own clock, the same for all. Every second the lab asks all agents at once for
//! what they did since it asked last; histograms travel whole, so that their sum is exact.

use super::{line_of, now_us};
use crate::archive::{decode, encode};
use crate::generator::{Generator, Taken, Workload};
use hdrhistogram::serialization::Deserializer;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt, Lines};

/// What the lab tells an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Get ready; messages are stamped with the lab's clock, which is so many microseconds behind.
    Prepare(Box<Workload>, i64),
    /// Begin to send at this moment of the agent's clock, microseconds since 1970.
    Start(u64),
    /// Send no more.
    Stop,
    /// Say what you did since asked last.
    Take,
}

/// What an agent answers to [`Order::Prepare`] and [`Order::Take`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// Ready to start.
    Ready,
    /// What was done.
    Did(Box<Did>),
    /// It cannot be done, for people.
    Failed(String),
}

/// A [`Taken`] on its way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Did {
    lasted_ms: u64,
    counts: [u64; 6],
    in_flight: u64,
    cpu_us: u64,
    /// Send latencies and lags, as in interval logs.
    histograms: [String; 2],
}

impl Did {
    pub fn of(taken: &Taken) -> io::Result<Self> {
        let Taken { sent, sent_bytes, failed, refused, consumed, consumed_bytes, .. } = *taken;
        Ok(Self {
            lasted_ms: taken.lasted_ms,
            counts: [sent, sent_bytes, failed, refused, consumed, consumed_bytes],
            in_flight: taken.in_flight,
            cpu_us: taken.cpu_us,
            histograms: [encode(&taken.latency)?, encode(&taken.late)?],
        })
    }

    /// What it was, as if it had ended at `at_ms`.
    pub fn taken(&self, at_ms: u64) -> io::Result<Taken> {
        let mut deserializer = Deserializer::new();
        let [sent, sent_bytes, failed, refused, consumed, consumed_bytes] = self.counts;
        let mut taken = Taken {
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
            ..Taken::default()
        };
        for (sum, text) in [&mut taken.latency, &mut taken.late].into_iter().zip(&self.histograms) {
            sum.add(decode(&mut deserializer, text)?).map_err(io::Error::other)?;
        }
        Ok(taken)
    }
}

/// Does what the lab says until the connection ends; then the load ends too.
pub(super) async fn obey(
    lines: &mut Lines<impl AsyncBufRead + Unpin>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut running: Option<(Generator, Workload)> = None;
    while let Some(line) = lines.next_line().await? {
        let order = serde_json::from_str(&line).map_err(io::Error::other)?;
        let answer = match perform(order, &mut running).await {
            Ok(answer) => answer,
            Err(why) => Some(Answer::Failed(why)),
        };
        if let Some(answer) = answer {
            writer.write_all(&line_of(&answer)).await?;
        }
    }
    if let Some((generator, _)) = running {
        generator.stop().await;
    }
    Ok(())
}

async fn perform(
    order: Order,
    running: &mut Option<(Generator, Workload)>,
) -> Result<Option<Answer>, String> {
    let told = |error: crate::Error| error.to_string();
    match (order, running) {
        (Order::Prepare(workload, ahead_us), running) => {
            let generator = Generator::prepare(&workload).await.map_err(told)?.ahead(ahead_us);
            *running = Some((generator, *workload));
            Ok(Some(Answer::Ready))
        }
        (_, None) => Err("nothing was prepared".to_owned()),
        (Order::Start(at_us), Some((generator, workload))) => {
            tokio::time::sleep(Duration::from_micros(at_us.saturating_sub(now_us()))).await;
            generator.start_lanes(workload).map_err(told)?;
            Ok(None)
        }
        (Order::Stop, Some((generator, _))) => {
            generator.stop_lanes();
            Ok(None)
        }
        (Order::Take, Some((generator, _))) => {
            let did = Did::of(&generator.take()).map_err(|error| error.to_string())?;
            Ok(Some(Answer::Did(Box::new(did))))
        }
    }
}
