//! The judge: what producers were told and what consumers read, against an append-only model.
//!
//! | id | rule |
//! |---|---|
//! | P1 | no acknowledged message is lost; where the mode allows it, what is lost is the end of the log that was not on the disk |
//! | P2 | a message read is a message sent, unchanged, once; a refused message is never read |
//! | P3 | a queue offset names one message for ever; an answer names the place where the message is |
//! | P4 | queue offsets are dense, never go back, and follow the order of the log |
//! | P5 | messages of one producer to one queue are read in the order they were sent |
//!
//! A round is: producers and a follower run, something happens to the server, it serves again, every queue is read
//! to its end. Of earlier rounds only a hash per message is kept, so that runs can be long. The judge measures how old lost messages
//! are, and leaves it at that: a slow machine flushes late.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::load::{Fate, History};
use super::read::Read;

/// Violations kept as text; the rest is counted.
const TEXTS_MAX: usize = 20;

/// What may be missing after a round.
#[derive(Clone, Copy, Debug)]
pub enum Promise {
    /// Nothing that was acknowledged or seen by a consumer.
    Everything,
    /// The end of the log.
    AllButTheEnd(Cut),
    /// Messages of the end of the log that neither waited for the disk nor were seen by a consumer.
    Waited(Cut),
}

/// The loss of what was not on the disk.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub at: Instant,
    /// Position in the log up to which the server had said before that everything is on the disk.
    pub flushed: u64,
}

impl Promise {
    /// The cut with which `lost` may be lost. `None` when `lost` must be there.
    fn allows(self, lost: &Lost) -> Option<Cut> {
        match self {
            Self::Everything => None,
            Self::AllButTheEnd(cut) => Some(cut),
            Self::Waited(cut) => (!lost.waited && !lost.seen).then_some(cut),
        }
    }
}

/// Counts over all rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sent: u64,
    pub acknowledged: u64,
    pub refused: u64,
    /// Acknowledged or seen, and gone as the mode allows.
    pub lost: u64,
    /// Longest time from the acknowledgement of a message that is gone to the cut.
    pub lost_age: Duration,
    pub read: u64,
}

#[derive(Default)]
struct Queue {
    /// Hash of the message of every offset that was ever read.
    prints: Vec<u64>,
    /// `prints.len()` when the round began.
    start: usize,
    /// Position in the log of every offset from `start`.
    logs: Vec<u64>,
    /// Last sequence read, by producer of this round.
    last: HashMap<u32, u64>,
}

struct Slot {
    queue: usize,
    waited: bool,
    fate: Fate,
    /// Offset and position in the log where it was read.
    read: Option<(i64, u64)>,
}

/// Judges round after round of one store.
pub struct Judge {
    queues: Vec<Queue>,
    round: HashMap<u32, Vec<Slot>>,
    counts: Counts,
    texts: Vec<String>,
    violations: u64,
}

impl Judge {
    /// A judge of an empty topic.
    pub fn new(queues: usize) -> Self {
        Self {
            queues: (0..queues).map(|_| Queue::default()).collect(),
            round: HashMap::new(),
            counts: Counts::default(),
            texts: Vec::new(),
            violations: 0,
        }
    }

    /// The first offsets nobody has read yet.
    pub fn ends(&self) -> Vec<i64> {
        self.queues.iter().map(|queue| queue.prints.len() as i64).collect()
    }

    /// Counts over all rounds so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Violations so far, and the texts of the first of them.
    pub fn violations(&self) -> (u64, &[String]) {
        (self.violations, &self.texts)
    }

    /// Begins a round with what its producers sent and were told.
    pub fn begin(&mut self, histories: Vec<History>) {
        for queue in &mut self.queues {
            queue.start = queue.prints.len();
            queue.logs.clear();
            queue.last.clear();
        }
        self.round.clear();
        for history in histories {
            if let Some(wrong) = &history.wrong {
                self.violation(format!("P3 producer {} got {wrong}", history.producer));
            }
            self.counts.sent += history.sent.len() as u64;
            for sent in &history.sent {
                match sent.fate {
                    Fate::Acknowledged(_) => self.counts.acknowledged += 1,
                    Fate::Refused => self.counts.refused += 1,
                    Fate::Unknown => {}
                }
            }
            let slot = |sent: &super::load::Sent| Slot {
                queue: sent.queue,
                waited: sent.waited,
                fate: sent.fate,
                read: None,
            };
            self.round.insert(history.producer, history.sent.iter().map(slot).collect());
        }
    }

    /// Takes one record that was read.
    pub fn read(&mut self, read: Read) {
        self.counts.read += 1;
        let queue = &mut self.queues[read.queue];
        let place = format!("queue {} offset {}", read.queue, read.offset);
        let next = queue.prints.len() as i64;
        if read.offset < next {
            let known = usize::try_from(read.offset).ok().map(|offset| queue.prints[offset]);
            if known != Some(read.print) {
                self.violation(format!("P3 {place} was another message before"));
            }
            return;
        }
        if read.offset > next {
            self.violation(format!("P4 {place} read where {next} was next"));
            return;
        }
        queue.prints.push(read.print);
        let backwards = queue.logs.last().is_some_and(|last| *last >= read.log);
        queue.logs.push(read.log);
        if backwards {
            self.violation(format!("P4 {place} lies before its predecessor in the log"));
        }
        if let Err(text) = self.recognise(&read) {
            self.violation(format!("{place}: {text}"));
        }
    }

    /// Finds the message among those of the round.
    fn recognise(&mut self, read: &Read) -> Result<(), String> {
        let tag = match &read.tag {
            Ok(tag) => *tag,
            Err(text) => return Err(format!("P2 {text}")),
        };
        let slots = self.round.get_mut(&tag.producer).ok_or("P2 of no producer of this round")?;
        let slot =
            usize::try_from(tag.sequence).ok().and_then(|at| slots.get_mut(at)).ok_or("P2 never sent")?;
        if slot.queue != read.queue {
            return Err(format!("P2 sent to queue {}", slot.queue));
        }
        if let Some((offset, _)) = slot.read {
            return Err(format!("P2 a second copy of offset {offset}"));
        }
        slot.read = Some((read.offset, read.log));
        match slot.fate {
            Fate::Refused => return Err("P2 its producer was told that it is refused".to_owned()),
            Fate::Acknowledged(place) => {
                if place.offset.is_some_and(|offset| offset != read.offset) {
                    return Err(format!("P3 acknowledged at offset {:?}", place.offset));
                }
                if place.log.is_some_and(|log| log != read.log) {
                    return Err(format!("P3 acknowledged at {:?} of the log, is at {}", place.log, read.log));
                }
            }
            Fate::Unknown => {}
        }
        let last = self.queues[read.queue].last.insert(tag.producer, tag.sequence);
        match last {
            Some(last) if last >= tag.sequence => {
                Err(format!("P5 message {} of producer {} after {last}", tag.sequence, tag.producer))
            }
            _ => Ok(()),
        }
    }

    /// Ends a round whose queues were read up to `ends`.
    pub fn end(&mut self, promise: Promise, ends: &[i64]) {
        for (index, end) in ends.iter().enumerate() {
            let (seen, start) = (self.queues[index].prints.len() as i64, self.queues[index].start as i64);
            if *end > seen {
                self.violation(format!("P4 queue {index} says it ends at {end}, {seen} can be read"));
            } else if *end < start || (*end < seen && !matches!(promise, Promise::AllButTheEnd(_))) {
                self.violation(format!("P1 queue {index} ends at {end}, {seen} were seen, {start} before"));
            }
        }
        let survivor = self.last_survivor(ends);
        for lost in self.lost(ends) {
            let Some(cut) = promise.allows(&lost) else {
                self.violation(format!("P1 lost: {lost:?}"));
                continue;
            };
            if lost.log.zip(survivor).is_some_and(|(lost, survivor)| lost < survivor) {
                self.violation(format!("P1 a hole: {lost:?}, the log goes on to {survivor:?}"));
            }
            if lost.log.is_some_and(|log| log < cut.flushed) {
                self.violation(format!("P1 lost, and on the disk up to {}: {lost:?}", cut.flushed));
            }
            let age = lost.at.map_or(Duration::ZERO, |at| cut.at.saturating_duration_since(at));
            self.counts.lost_age = self.counts.lost_age.max(age);
            self.counts.lost += 1;
        }
        for (queue, end) in self.queues.iter_mut().zip(ends) {
            queue.prints.truncate(usize::try_from(*end).unwrap_or(0));
        }
        self.round.clear();
    }

    /// Messages of this round that were acknowledged or seen, and are not there any more.
    fn lost(&self, ends: &[i64]) -> Vec<Lost> {
        let mut lost = Vec::new();
        for (producer, slots) in &self.round {
            for (sequence, slot) in slots.iter().enumerate() {
                if slot.read.is_some_and(|(offset, _)| offset < ends[slot.queue]) {
                    continue;
                }
                let place = match slot.fate {
                    Fate::Acknowledged(place) => Some(place),
                    _ => None,
                };
                if place.is_none() && slot.read.is_none() {
                    continue;
                }
                let log = place.and_then(|place| place.log).or(slot.read.map(|(_, log)| log));
                let offset = place.and_then(|place| place.offset).or(slot.read.map(|(offset, _)| offset));
                lost.push(Lost {
                    producer: *producer,
                    sequence,
                    queue: slot.queue,
                    waited: slot.waited,
                    offset,
                    log,
                    seen: slot.read.is_some(),
                    at: place.map(|place| place.at),
                });
            }
        }
        lost
    }

    /// Position in the log of the last message of this round that is still there.
    fn last_survivor(&self, ends: &[i64]) -> Option<u64> {
        let last = |(queue, end): (&Queue, &i64)| {
            let there = usize::try_from(*end).unwrap_or(0).saturating_sub(queue.start);
            queue.logs[..there.min(queue.logs.len())].last().copied()
        };
        self.queues.iter().zip(ends).filter_map(last).max()
    }

    /// Ends a round with the offsets its readers had committed: none is ahead of its queue.
    pub fn positions(&mut self, committed: &[i64], ends: &[i64]) {
        for (queue, (committed, end)) in committed.iter().zip(ends).enumerate() {
            if committed > end {
                self.violation(format!("P6 queue {queue} ends at {end}, the group is at {committed}"));
            }
        }
    }

    fn violation(&mut self, text: String) {
        self.violations += 1;
        if self.texts.len() < TEXTS_MAX {
            self.texts.push(text);
        }
    }
}

/// A message that is gone.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "printed")]
struct Lost {
    producer: u32,
    sequence: usize,
    queue: usize,
    waited: bool,
    offset: Option<i64>,
    log: Option<u64>,
    /// A consumer had it already.
    seen: bool,
    at: Option<Instant>,
}
