//! The lab's side of the agents that share its load.

use super::orders::{Answer, Order};
use super::{Asked, Hello, line_of, link, now_us};
use crate::Error;
use crate::generator::{IntervalSample, Workload};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Longest time for an agent to find its topics.
const PREPARE: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 60 });

/// Longest time for an agent to report its figures.
const TAKE: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 5 });

/// Time between the order and the common start; longer than an order takes to reach any agent.
pub(crate) const LEAD: Duration = Duration::from_millis(500);

/// The agents that share the load of a workload with the lab itself.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    address: String,
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    ahead_us: i64,
}

impl Fleet {
    /// Connects to the agents and lets each prepare its share of the workload; returns the lab's own share as well.
    ///
    /// # Errors
    /// [`Error::System`] when an agent does not answer, runs no load or cannot reach the cluster, [`Error::Flag`] when the
    /// load cannot be shared.
    pub async fn prepare(addresses: &[String], workload: &Workload) -> Result<(Self, Workload), Error> {
        let mut fleet = Self::default();
        let parts = u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
        workload.check_over(parts)?;
        for (number, address) in (1..).zip(addresses) {
            let mut member = Member::connect(address).await?;
            let share = workload.share_to_send(number, parts);
            member.say(&Order::Prepare(Box::new(share), member.ahead_us)).await?;
            fleet.members.push(member);
        }
        for member in &mut fleet.members {
            member.hear(PREPARE).await?;
        }
        Ok((fleet, workload.share(0, parts)))
    }

    /// Lets all agents start at the same time; returns how long the lab itself has to wait for that time.
    ///
    /// # Errors
    /// [`Error::System`] when an agent is lost.
    pub async fn start(&mut self) -> Result<Duration, Error> {
        if self.members.is_empty() {
            return Ok(Duration::ZERO);
        }
        let at_us = now_us() + LEAD.as_micros() as u64;
        for member in &mut self.members {
            member.say(&Order::Start(at_us.saturating_add_signed(member.ahead_us))).await?;
        }
        Ok(Duration::from_micros(at_us.saturating_sub(now_us())))
    }

    /// Lets all agents stop sending.
    ///
    /// # Errors
    /// [`Error::System`] when an agent is lost.
    pub async fn stop(&mut self) -> Result<(), Error> {
        for member in &mut self.members {
            member.say(&Order::Stop).await?;
        }
        Ok(())
    }

    /// Adds the figures of all agents since the last call.
    ///
    /// # Errors
    /// [`Error::System`] when an agent is lost or its load failed, because without its share the load would be another one.
    pub async fn add_to(&mut self, sample: &mut IntervalSample) -> Result<(), Error> {
        for member in &mut self.members {
            member.say(&Order::Take).await?;
        }
        for member in &mut self.members {
            if let Answer::Did(did) = member.hear(TAKE).await? {
                sample.add(&did.sample(sample.at_ms).map_err(|error| member.lost(error))?);
            }
        }
        Ok(())
    }
}

impl Member {
    async fn connect(address: &str) -> Result<Self, Error> {
        let failed = Error::system(format!("ask the agent at {address} to run load"));
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (reader, mut writer) = stream.into_split();
            let before_us = now_us();
            writer.write_all(&line_of(&Asked { load: true, ..Asked::default() })).await?;
            let mut lines = BufReader::new(reader).lines();
            let line = lines
                .next_line()
                .await?
                .ok_or_else(|| io::Error::other("it runs no load; start it with vostok lab agent --load"))?;
            let hello: Hello = serde_json::from_str(&line).map_err(io::Error::other)?;
            let (ahead_us, _) = link::apart(before_us, &hello, now_us());
            Ok(Self { address: address.to_owned(), lines, writer, ahead_us })
        };
        match tokio::time::timeout(TAKE, connecting).await {
            Ok(connected) => connected.map_err(failed),
            Err(_) => Err(failed(io::Error::from(io::ErrorKind::TimedOut))),
        }
    }

    async fn say(&mut self, order: &Order) -> Result<(), Error> {
        let written = self.writer.write_all(&line_of(order)).await;
        written.map_err(|error| self.lost(error))
    }

    async fn hear(&mut self, limit: Duration) -> Result<Answer, Error> {
        let line = tokio::time::timeout(limit, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let line = line.and_then(|line| line.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()));
        let line = line.map_err(|error| self.lost(error))?;
        match serde_json::from_str(&line).map_err(|error| self.lost(error.into()))? {
            Answer::Failed(why) => Err(self.lost(io::Error::other(why))),
            answer => Ok(answer),
        }
    }

    fn lost(&self, error: io::Error) -> Error {
        Error::system(format!("run load on the agent at {}", self.address))(error)
    }
}
