//! The command line of `vostok top`.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;

use super::look::{INTERVAL, Turns, health_of, look};
use super::sample::{History, Sample};
use super::terminal;
use crate::command::print;
use crate::output::{Format, Look, render_for};
use crate::shell::{Access, connect};
use crate::{Error, Lang, Memory};

/// Live figures of a cluster of Vostok or Apache RocketMQ: brokers, topics, groups, queues, clients.
#[derive(Args, Debug)]
#[command(after_help = "Keys are shown with ?. Nothing is changed, and a look asks for many rows at once.")]
pub struct TopCommand {
    /// Name servers; otherwise those of NAMESRV_ADDR, otherwise 127.0.0.1:9876.
    #[arg(short, long, value_name = "HOST:PORT;...")]
    namesrv: Option<String>,
    /// File with accessKey and secretKey; otherwise conf/tools.yml of ROCKETMQ_HOME.
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Print the figures of one second and end.
    #[arg(long)]
    once: bool,
    /// Format of the figures of --once.
    #[arg(short, long, default_value = "table", requires = "once")]
    output: Format,
}

impl TopCommand {
    /// Shows figures until the user ends it, or prints those of one second.
    ///
    /// # Errors
    /// [`Error`]: no name server answers, or there is no terminal.
    pub fn run(self, lang: Lang) -> Result<(), Error> {
        let access =
            Access { name_servers: self.namesrv, credentials: self.credentials, ..Access::default() };
        if self.once {
            let sample = once(&access)?;
            let value = serde_json::to_value(sample).expect("a sample has text as keys");
            return print(&render_for(&value, self.output, &Look::stdout(lang))).map(drop);
        }
        if !std::io::stdout().is_terminal() {
            return Err(Error::Usage(
                "top needs a terminal; --once prints the figures of one second".to_owned(),
            ));
        }
        terminal::run(&access, lang)
    }
}

/// The sample of two looks.
fn once(access: &Access) -> Result<Sample, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cluster = connect(access)?;
    let looked = runtime.block_on(async {
        let (mut turns, mut history) = (Turns::default(), History::default());
        history.take(look(&cluster.session(false), &mut turns).await?);
        // Counts of refused requests are a finding only if they grow between two looks.
        let mut memory = Memory::default();
        health_of(&cluster, &mut memory).await;
        tokio::time::sleep(INTERVAL).await;
        // The same are asked again, because a rate takes two answers.
        let second = look(&cluster.session(false), &mut Turns::default()).await?;
        let health = health_of(&cluster, &mut memory).await;
        Ok(history.take(second).with(health))
    });
    cluster.close();
    looked
}
