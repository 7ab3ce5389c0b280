//! `vostok lab matrix`: every combination of threads, sizes and queues.

use super::bench::{Bench, Plan};
use super::cluster::Cluster;
use super::record::Stage;
use super::settings::sweep;
use crate::Error;
use crate::archive::{Factors, SETTING};
use crate::generator::{Sizes, Workload};
use crate::scenario_arguments::mix;
use crate::scenario_arguments::{MatrixFlags, QueuesFlags, ScenarioArguments};
use crate::session;
use clap::ValueEnum;

/// Runs the matrix.
///
/// # Errors
/// [`Error::Flag`] for flags that contradict each other, [`Error::Cluster`] when the cluster does not answer at the
/// start, [`Error::File`] when files cannot be written, [`Error::Signal`] when a signal ended the run.
pub fn run(flags: &MatrixFlags) -> Result<(), Error> {
    session::block_on(async {
        let plan = Plain { arguments: flags.arguments.clone(), prune: flags.prune };
        let mut bench = Bench::open(&flags.arguments, "matrix", cells(flags), &plan).await?;
        bench.run(&plan).await
    })
}

/// Runs the matrix over numbers of queues, `vostok lab queues`.
///
/// # Errors
/// As for [`run`].
pub fn queues(flags: &QueuesFlags) -> Result<(), Error> {
    session::block_on(async {
        let plan = Plain { arguments: flags.arguments.clone(), prune: false };
        let cells = flags.queues.iter().flat_map(|queues| {
            flags.sizes.iter().map(|size| flags.arguments.factors(flags.threads, size, *queues))
        });
        let mut bench = Bench::open(&flags.arguments, "queues", cells.collect(), &plan).await?;
        bench.run(&plan).await
    })
}

/// The combinations of factors: varied flags change slowest, then sizes, and threads fastest, so that a ladder of
/// threads runs without interruption.
#[must_use]
pub fn cells(flags: &MatrixFlags) -> Vec<Factors> {
    let mut scenes = vec![flags.arguments.clone()];
    for vary in &flags.vary {
        scenes = scenes.iter().flat_map(|arguments| vary.over(arguments)).collect();
    }
    let mut cells = Vec::new();
    for arguments in &scenes {
        for size in &flags.sizes {
            for queues in &flags.queues {
                cells.extend(flags.threads.iter().map(|threads| arguments.factors(*threads, size, *queues)));
            }
        }
    }
    cells
}

/// The plan of an ordinary cell: a warm-up and a measured stage.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    pub arguments: ScenarioArguments,
    /// Whether to skip the steps of a ladder above its ceiling.
    pub prune: bool,
}

impl Plan for Plain {
    fn workload(&self, cell: &Factors) -> Workload {
        self.arguments.workload(cell)
    }

    fn stages(&self, _cell: &Factors) -> Vec<Stage> {
        Stage::plain(self.arguments.warmup(), self.arguments.duration())
    }

    fn prunes(&self) -> bool {
        self.prune
    }

    fn held(&self) -> Vec<(&'static str, String)> {
        vec![("--prune", if self.prune { "yes".to_owned() } else { String::new() })]
    }

    async fn prepare(&self, cluster: &Cluster, cell: &Factors) -> Result<(), Error> {
        sweep(cluster, cell).await
    }
}

/// The value of a choice as it is typed; `None` for the default.
fn word<T: ValueEnum + Default + PartialEq>(choice: T) -> Option<String> {
    let name = choice.to_possible_value().map(|value| value.get_name().to_owned());
    name.filter(|_| choice != T::default())
}

/// The value of a choice that the factors of a cell name.
fn choice<T: ValueEnum + Default>(cell: &Factors, name: &str) -> T {
    cell.more.get(name).and_then(|word| T::from_str(word, true).ok()).unwrap_or_default()
}

impl ScenarioArguments {
    /// The factors of a cell with these flags.
    #[must_use]
    pub fn factors(&self, threads: u32, sizes: &Sizes, queues: u32) -> Factors {
        let mut factors = Factors {
            threads,
            producers: self.producers,
            connections: self.connections,
            size: sizes.mean(),
            queues,
            topics: self.topics,
            groups: self.groups,
            rate: self.rate,
            compression: self.compression.clone(),
            payload: self.payload_name(),
            ..Factors::default()
        };
        if sizes.0.len() > 1 {
            let words: Vec<_> = sizes.0.iter().map(|(size, weight)| format!("{size}:{weight}")).collect();
            factors.more.insert("sizes".to_owned(), words.join("/"));
        }
        let numbers = [
            ("batch", self.batch),
            ("tags", self.tags),
            ("property-size", self.property_size),
            ("delay", self.delay.unsigned_abs()),
            // One consumer per group is the default and is left out of the factors.
            ("consumers", if self.consumers > 1 { self.consumers } else { 0 }),
            ("consumer-threads", self.consumer_threads.unwrap_or(0)),
        ];
        for (name, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
            factors.more.insert(name.to_owned(), number.to_string());
        }
        let words = [("send", word(self.send)), ("consume", word(self.consume))];
        for (name, word) in words.into_iter().filter_map(|(name, word)| Some((name, word?))) {
            factors.more.insert(name.to_owned(), word);
        }
        let settings = self.settings.iter().map(|(key, value)| (format!("{SETTING}{key}"), value.clone()));
        factors.more.extend(settings);
        if self.keys {
            factors.more.insert("keys".to_owned(), "true".to_owned());
        }
        if self.json_headers {
            factors.more.insert("headers".to_owned(), "json".to_owned());
        }
        factors
    }

    /// The load of a cell.
    #[must_use]
    pub fn workload(&self, cell: &Factors) -> Workload {
        let sizes = cell.more.get("sizes").and_then(|text| mix(text).ok());
        let number = |name: &str| cell.more.get(name).and_then(|number| number.parse().ok()).unwrap_or(0);
        Workload {
            namesrv: self.namesrv.clone(),
            access: self.access(),
            cluster: self.cluster.clone().unwrap_or_default(),
            topic: format!("{}{}", self.topic, cell.queues),
            topics: cell.topics,
            queues: cell.queues,
            threads: cell.threads,
            producers: cell.producers,
            connections: cell.connections,
            cores: self.cores,
            rate: cell.rate,
            ramp: self.ramp.map(|seconds| (0.0, seconds)),
            sizes: sizes.unwrap_or_else(|| Sizes::one(cell.size)),
            payload: self.payload(),
            compression: cell.compression.clone(),
            tags: number("tags"),
            keys: cell.more.contains_key("keys"),
            property_size: number("property-size"),
            batch: number("batch"),
            delay_level: number("delay").cast_signed(),
            send: choice(cell, "send"),
            consume: choice(cell, "consume"),
            json_headers: cell.more.contains_key("headers"),
            groups: cell.groups,
            consumers: number("consumers").max(1),
            consumer_threads: Some(number("consumer-threads")).filter(|threads| *threads > 0),
            run: super::record::epoch_ms() as u32,
            seed: self.seed,
            ..Workload::default()
        }
    }
}
