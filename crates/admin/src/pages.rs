//! Pages of topics and groups: a part of the names, in order or by a figure. Brokers of Vostok answer with figures
//! (`VOSTOK_PAGE`); of others the names alone are known.

use crate::arguments::optional;
use crate::request::{Request, body};
use crate::{Argument, Arguments, Error, Session};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use wire::codes::{request, response};

/// Rows of a page unless the operator says how many.
const ROWS: usize = 100;
/// Broker id of a master.
const MASTER: i64 = 0;

/// The arguments that ask for a page.
pub(crate) const CONTAINS: Argument = optional("contains", ("", ""), "only names with this in them");
pub(crate) const AFTER: Argument = optional("after", ("", ""), "only names behind this one");
pub(crate) const LIMIT: Argument = optional("limit", ("", ""), "most rows, at most 2000; 100 if left out");

/// Filter and limit of a page.
pub(crate) struct Page<'a> {
    contains: &'a str,
    after: &'a str,
    limit: usize,
    sort: &'a str,
}

#[derive(Deserialize)]
struct Rows<R> {
    rows: Vec<R>,
    /// The name after which the broker has not searched yet.
    next: Option<String>,
}

impl<'a> Page<'a> {
    /// The page that the arguments ask for; `None` when they ask for none.
    pub fn of(arguments: &'a Arguments) -> Result<Option<Self>, Error> {
        let given = |name| arguments.get(name);
        if ["contains", "after", "limit", "sort"].into_iter().all(|name| given(name).is_none()) {
            return Ok(None);
        }
        Ok(Some(Self {
            contains: given("contains").unwrap_or_default(),
            after: given("after").unwrap_or_default(),
            limit: arguments.parse("limit")?.unwrap_or(ROWS),
            sort: given("sort").unwrap_or("name"),
        }))
    }

    /// Largest number of rows of the page.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether rows come in the order of names.
    pub fn is_by_name(&self) -> bool {
        self.sort == "name"
    }

    /// The rows of this page of all masters; `None` if any master is not a broker of Vostok. Masters that do not answer are noted.
    pub async fn ask<R: DeserializeOwned>(
        &self,
        session: &Session,
        table: &str,
    ) -> Result<Option<Vec<R>>, Error> {
        let mut outcomes = Vec::new();
        for member in session.members(None).await?.into_iter().filter(|member| member.id == MASTER) {
            match self.ask_one(session, &member.address, table).await {
                Err(error) if error.code() == Some(response::REQUEST_CODE_NOT_SUPPORTED) => return Ok(None),
                Err(error) if error.code().is_some() => return Err(error),
                outcome => outcomes.push(outcome),
            }
        }
        Ok(Some(session.answers(outcomes)?.into_iter().flatten().collect()))
    }

    /// Returns the rows of one broker. A broker looks at a bounded number of names for each request, and answers with
    /// the name after which the next request continues.
    async fn ask_one<R: DeserializeOwned>(
        &self,
        session: &Session,
        address: &str,
        table: &str,
    ) -> Result<Vec<R>, Error> {
        let (mut rows, mut after) = (Vec::new(), Some(self.after.to_owned()));
        while let Some(from) = after.take() {
            let ask = Request::new(request::VOSTOK_PAGE)
                .with("table", table)
                .with("contains", self.contains)
                .with("after", &from)
                .with("limit", self.limit.saturating_sub(rows.len()))
                .with("sort", self.sort);
            let answer: Rows<R> = body(address, &session.look(address, &ask).await?)?;
            rows.extend(answer.rows);
            // A broker that does not go on would be asked for ever.
            after = answer.next.filter(|next| rows.len() < self.limit && *next > from);
        }
        Ok(rows)
    }

    /// The page of names alone, which are in order.
    ///
    /// # Errors
    /// The rows are wanted by a figure.
    pub fn of_names(&self, names: impl Iterator<Item = String>) -> Result<Vec<String>, Error> {
        if !self.is_by_name() {
            return Err(Error::Usage(format!("only brokers of Vostok sort by {}", self.sort)));
        }
        let fits = |name: &String| name.as_str() > self.after && name.contains(self.contains);
        Ok(names.filter(fits).take(self.limit).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_alone_are_paged_like_rows() {
        let page = |given: &[(&'static str, &str)]| {
            let mut arguments = Arguments::default();
            given.iter().for_each(|(name, value)| arguments.set(name, *value));
            let names = ["Audit", "Orders", "OrdersOld", "Other"].map(str::to_owned);
            let page = Page::of(&arguments).unwrap().expect("a page");
            page.of_names(names.into_iter()).map(|names| names.join(" ")).map_err(|error| error.to_string())
        };
        assert_eq!(page(&[("contains", "Ord")]).unwrap(), "Orders OrdersOld");
        assert_eq!(page(&[("after", "Audit"), ("limit", "2")]).unwrap(), "Orders OrdersOld");
        assert_eq!(page(&[("sort", "messages")]).unwrap_err(), "only brokers of Vostok sort by messages");
        assert!(Page::of(&Arguments::default()).unwrap().is_none());
    }
}
