//! `vostok lab TOOL …`: the command line of the lab.

#[cfg(test)]
mod tests;

use crate::arguments::{
    BatchProducerFlags, ConsumerFlags, EchoFlags, ProducerFlags, TransactionProducerFlags, long_options,
};
use crate::compare::{self, CompareFlags};
use crate::export::{self, ReportFlags};
use crate::output::say;
use crate::plan::{self, PlanFlags};
use crate::scenario_arguments::{
    AgentFlags, BacklogFlags, CleanFlags, MatrixFlags, ModesFlags, QueuesFlags, SafeTpsFlags, SeedFlags,
    SelftestFlags, SoakFlags,
};
use crate::{
    Error, agent, batch_producer, consumer, echo, output, producer, scenario, selftest, transaction_producer,
};
use clap::Parser;

/// Arguments of `vostok lab`. They are taken unparsed, because the flags of RocketMQ's scripts must be rewritten before
/// clap sees them.
#[derive(clap::Args, Debug, Clone)]
#[command(disable_help_flag = true)]
pub struct Lab {
    /// A tool and its flags; `vostok lab --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "TOOL")]
    arguments: Vec<String>,
}

/// The tools of the lab.
#[derive(Parser, Debug)]
#[command(name = "vostok lab", about = "Load generation and measurement against any RocketMQ cluster")]
enum Tool {
    /// Sends messages and reports rate and latency (producer.sh).
    Producer(ProducerFlags),
    /// Consumes messages and reports rate and delay (consumer.sh).
    Consumer(ConsumerFlags),
    /// Sends batches of messages (batchproducer.sh).
    Batchproducer(BatchProducerFlags),
    /// Sends half messages, commits them and answers transaction checks (tproducer.sh).
    Tproducer(TransactionProducerFlags),
    /// Runs every combination of threads, sizes and queues.
    Matrix(MatrixFlags),
    /// Searches the highest rate that keeps every guard.
    SafeTps(SafeTpsFlags),
    /// Compares flush and replication modes.
    Modes(ModesFlags),
    /// Runs a matrix over numbers of queues.
    Queues(QueuesFlags),
    /// Builds up a backlog and drains it while producers go on.
    Backlog(BacklogFlags),
    /// Runs for hours and checks every message.
    Soak(SoakFlags),
    /// Runs the cells of one of the five reports on which this lab is modelled.
    Seed(SeedFlags),
    /// Removes the topics and groups that a run could not remove itself, because it was killed or a broker was away.
    Clean(CleanFlags),
    /// Measures the limits of this machine.
    Selftest(SelftestFlags),
    /// Reports this machine and the broker on it to a lab on another machine.
    Agent(AgentFlags),
    /// Answers sends without storing anything: the limit of the network.
    Echo(EchoFlags),
    /// Judges a run and writes its report: HTML, Markdown, CSV and JSON.
    Report(ReportFlags),
    /// Compares two runs: better, equal or worse in every cell.
    Compare(CompareFlags),
    /// Plans a cluster from a run's safe rate and a target.
    Plan(Box<PlanFlags>),
}

impl Lab {
    /// Takes arguments from a source other than clap, such as an example program.
    pub fn new(arguments: impl IntoIterator<Item = String>) -> Self {
        Self { arguments: arguments.into_iter().collect() }
    }

    fn tool(self) -> Result<Tool, clap::Error> {
        let arguments = long_options(self.arguments);
        Tool::try_parse_from(std::iter::once("vostok lab".to_owned()).chain(arguments))
    }
}

/// Runs a tool to its end. Help and version texts count as a successful run.
///
/// # Errors
/// [`Error::Usage`] or [`Error::Flag`] when the flags are wrong; [`Error::File`], [`Error::System`] or
/// [`Error::Cluster`] when a file, a socket or the cluster fails at the start. Failed sends are counted; it is an error
/// when all of them failed.
pub fn run(lab: Lab) -> Result<(), Error> {
    perform(lab.tool()).and(output::check())
}

fn perform(tool: Result<Tool, clap::Error>) -> Result<(), Error> {
    match tool {
        Ok(Tool::Producer(flags)) => producer::run(&flags),
        Ok(Tool::Consumer(flags)) => consumer::run(&flags),
        Ok(Tool::Batchproducer(flags)) => batch_producer::run(&flags),
        Ok(Tool::Tproducer(flags)) => transaction_producer::run(&flags),
        Ok(Tool::Matrix(flags)) => scenario::matrix(&flags),
        Ok(Tool::SafeTps(flags)) => scenario::safe_tps(&flags),
        Ok(Tool::Modes(flags)) => scenario::modes(&flags),
        Ok(Tool::Queues(flags)) => scenario::queues(&flags),
        Ok(Tool::Backlog(flags)) => scenario::backlog(&flags),
        Ok(Tool::Soak(flags)) => scenario::soak(&flags),
        Ok(Tool::Seed(flags)) => scenario::seed(&flags),
        Ok(Tool::Clean(flags)) => scenario::clean(&flags),
        Ok(Tool::Selftest(flags)) => selftest::run(&flags),
        Ok(Tool::Agent(flags)) => agent::run(&flags),
        Ok(Tool::Echo(flags)) => echo::run(&flags),
        Ok(Tool::Report(flags)) => export::run(&flags),
        Ok(Tool::Compare(flags)) => compare::run(&flags),
        Ok(Tool::Plan(flags)) => plan::run(&flags),
        Err(text) if !text.use_stderr() => {
            say!("{}", text.to_string().trim_end());
            Ok(())
        }
        Err(text) => Err(Error::Usage(text)),
    }
}
