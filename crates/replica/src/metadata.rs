//! When a slave pulls which metadata from its master (`SlaveSynchronize`, `BrokerController.handleSlaveSynchronize`): topics,
//! groups, offsets and the state of timers. The shell sends the requests, keeps the pages and applies what is complete.
//!
//! A Java slave stops one item short of the announced total; this one asks until it has all of them.

use crate::timer::Timer;
use std::collections::VecDeque;
use wire::codes::request;

/// Most pages of one item: a master that announces more than it sends is given up.
const PAGES_MAX: u32 = 10_000;

/// A kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// All topics, in pages.
    Topics,
    /// Offsets of all groups.
    ConsumerOffsets,
    /// Positions of the delay levels.
    DelayOffsets,
    /// All subscription groups, in pages.
    Groups,
    /// How groups receive messages: pull or pop.
    RequestModes,
    /// Where the master's timers are.
    TimerCheckpoint,
    /// How many messages of which topic wait in timers.
    TimerMetrics,
}

impl Item {
    /// What a full round pulls, in this order.
    const FULL: [Self; 6] = [
        Self::Topics,
        Self::ConsumerOffsets,
        Self::DelayOffsets,
        Self::Groups,
        Self::RequestModes,
        Self::TimerMetrics,
    ];

    /// The request code that asks for it.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Topics => request::GET_ALL_TOPIC_CONFIG,
            Self::ConsumerOffsets => request::GET_ALL_CONSUMER_OFFSET,
            Self::DelayOffsets => request::GET_ALL_DELAY_OFFSET,
            Self::Groups => request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            Self::RequestModes => request::GET_ALL_MESSAGE_REQUEST_MODE,
            Self::TimerCheckpoint => request::GET_TIMER_CHECK_POINT,
            Self::TimerMetrics => request::GET_TIMER_METRICS,
        }
    }

    /// Whether the request goes to the master's fast port.
    #[must_use]
    pub const fn is_on_fast_port(self) -> bool {
        matches!(self, Self::Topics | Self::TimerCheckpoint | Self::TimerMetrics)
    }

    const fn has_pages(self) -> bool {
        matches!(self, Self::Topics | Self::Groups)
    }
}

/// How often a slave pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataConfig {
    /// Pause before the first round, in milliseconds.
    pub first_ms: u64,
    /// Pause between rounds, in milliseconds. Each pulls the timer checkpoint.
    pub interval_ms: u64,
    /// A round is a full one when the last full one is longer ago, in milliseconds.
    pub full_interval_ms: u64,
}

impl MetadataConfig {
    /// The intervals of a classic slave, from the start of the process on.
    pub const CLASSIC: Self = Self { first_ms: 10_000, interval_ms: 3_000, full_interval_ms: 60_000 };
    /// The intervals of a slave in controller mode, from its role on.
    pub const CONTROLLER: Self = Self { first_ms: 3_000, interval_ms: 3_000, full_interval_ms: 10_000 };
}

/// Names a pull, so that an answer that comes too late is not taken for another one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PullId(pub u64);

/// What an answer says about its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Entries in this page.
    pub count: u32,
    /// Entries of all pages; `None` when the master does not split.
    pub total: Option<u32>,
    /// What tells versions of the data apart: a change means that pages do not fit together.
    pub version: u64,
}

/// What happened to a slave's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataEvent {
    /// The address of the master's remoting port; `None` while nobody knows, or when this broker is no slave any more.
    Master(Option<String>),
    /// An answer came, with this page.
    Received(PullId, Page),
    /// The master refused, or did not answer.
    Failed(PullId),
    /// The timer has fired.
    Timer,
}

/// What the shell has to do for a slave's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataAction {
    /// Ask the master for the page that begins with this entry. With zero, drop the pages kept so far.
    Pull(PullId, Item, u32),
    /// Take over what was received: all its pages are there and fit together.
    Apply(Item),
    /// Send [`MetadataEvent::Timer`] at this time.
    WakeAt(u64),
}

#[derive(Clone, Copy, Debug)]
struct Pulling {
    id: PullId,
    item: Item,
    received: u32,
    pages: u32,
    version: Option<u64>,
}

/// The metadata of one slave.
#[derive(Clone, Debug)]
pub struct Metadata {
    config: MetadataConfig,
    master: Option<String>,
    round_at_ms: u64,
    last_full_ms: u64,
    waiting: VecDeque<Item>,
    pulling: Option<Pulling>,
    last_id: PullId,
    timer: Timer,
}

impl Metadata {
    /// The metadata of a broker that became slave at `now_ms` and does not know its master yet.
    #[must_use]
    pub fn new(now_ms: u64, config: MetadataConfig) -> Self {
        Self {
            config,
            master: None,
            round_at_ms: now_ms + config.first_ms,
            last_full_ms: now_ms,
            waiting: VecDeque::new(),
            pulling: None,
            last_id: PullId::default(),
            timer: Timer::default(),
        }
    }

    /// Where requests go.
    #[must_use]
    pub fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    /// Takes in what happened at `now_ms` and appends what has to be done.
    pub fn step(&mut self, now_ms: u64, event: MetadataEvent, out: &mut Vec<MetadataAction>) {
        match event {
            MetadataEvent::Master(master) if master != self.master => {
                self.master = master;
                self.pulling = None;
                self.waiting.clear();
            }
            MetadataEvent::Received(id, page) => {
                if let Some(pulling) = self.pulling.take_if(|pulling| pulling.id == id) {
                    self.receive(pulling, page, out);
                }
            }
            // The other items do not wait for this one.
            MetadataEvent::Failed(id) => self.pulling = self.pulling.filter(|pulling| pulling.id != id),
            MetadataEvent::Timer => self.timer.fired(),
            MetadataEvent::Master(_) => {}
        }
        self.begin_round(now_ms);
        if self.pulling.is_none()
            && let Some(item) = self.waiting.pop_front()
        {
            self.pull(Pulling { id: self.last_id, item, received: 0, pages: 0, version: None }, out);
        }
        let is_idle = self.pulling.is_none() && self.master.is_some();
        if let Some(wake_at_ms) = self.timer.arm(Some(self.round_at_ms).filter(|_| is_idle)) {
            out.push(MetadataAction::WakeAt(wake_at_ms));
        }
    }

    fn begin_round(&mut self, now_ms: u64) {
        let is_busy = self.pulling.is_some() || !self.waiting.is_empty();
        if is_busy || self.master.is_none() || now_ms < self.round_at_ms {
            return;
        }
        self.round_at_ms = now_ms + self.config.interval_ms;
        if now_ms > self.last_full_ms + self.config.full_interval_ms {
            self.last_full_ms = now_ms;
            self.waiting.extend(Item::FULL);
        }
        self.waiting.push_back(Item::TimerCheckpoint);
    }

    fn pull(&mut self, pulling: Pulling, out: &mut Vec<MetadataAction>) {
        self.last_id = PullId(self.last_id.0 + 1);
        self.pulling = Some(Pulling { id: self.last_id, ..pulling });
        out.push(MetadataAction::Pull(self.last_id, pulling.item, pulling.received));
    }

    fn receive(&mut self, pulling: Pulling, page: Page, out: &mut Vec<MetadataAction>) {
        let pages = pulling.pages + 1;
        let item = pulling.item;
        if pulling.version.is_some_and(|version| version != page.version) {
            // The data changed between two pages: from the beginning, unless that goes on for ever.
            if pages < PAGES_MAX {
                self.pull(Pulling { received: 0, pages, version: None, ..pulling }, out);
            }
            return;
        }
        let received = pulling.received.saturating_add(page.count);
        let has_all = !item.has_pages() || page.total.is_none_or(|total| received >= total);
        if has_all {
            out.push(MetadataAction::Apply(item));
        } else if page.count > 0 && pages < PAGES_MAX {
            self.pull(Pulling { received, pages, version: Some(page.version), ..pulling }, out);
        }
    }
}

#[cfg(test)]
mod tests;
