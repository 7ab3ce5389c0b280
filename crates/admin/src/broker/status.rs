//! Runtime figures of brokers.

use crate::operation::Typed;
use crate::{Arguments, Error, Session};
use serde::Serialize;
use std::fmt::Write as _;

/// A runtime figure of a broker.
#[derive(Serialize)]
pub struct Figure {
    /// Address of the broker.
    pub broker: String,
    /// Name of the figure.
    pub name: String,
    /// Value of the figure, as the broker writes it.
    pub value: String,
}

impl Typed for Vec<Figure> {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let is_cluster = arguments.get("broker").is_none();
        self.iter().fold(String::new(), |mut out, Figure { broker, name, value }| {
            let _ = match is_cluster {
                true => writeln!(out, "{broker:<24} {name:<32}: {value}"),
                false => writeln!(out, "{name:<32}: {value}"),
            };
            out
        })
    }
}

pub(super) async fn status(session: &Session, arguments: &Arguments) -> Result<Vec<Figure>, Error> {
    let mut outcomes = Vec::new();
    for broker in session.targets(arguments).await? {
        let table = session.client.broker_runtime(&broker.address).await;
        let figure = |(name, value)| Figure { broker: broker.address.clone(), name, value };
        let figures = table.map(|table| table.into_iter().map(figure).collect::<Vec<_>>());
        outcomes.push(figures.map_err(Error::from));
    }
    Ok(session.answers(outcomes)?.into_iter().flatten().collect())
}
