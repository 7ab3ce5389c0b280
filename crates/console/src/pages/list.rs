//! Lists of names. A list of few names is searched and paged here; of many the brokers give one page at a time, so that no list is
//! loaded as a whole.

use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::number;
use crate::words::Lang;
use http::StatusCode;
use maud::{Markup, html};
use std::cmp::Ordering;
use std::sync::Arc;

/// Rows of a page of a list.
const PAGE: usize = 50;
/// Time for which a list of names is not asked for again, ms.
pub(super) const NAMES_MS: i64 = 5000;
/// Time for which a list counts as long after it was found to be long, ms.
const LONG_MS: i64 = 60_000;
/// Rows that are asked for beyond the needed ones, because a broker leaves out names that were deleted while it
/// gathered a page.
const SPARE: usize = 10;
/// Names from which on a list is long.
const MANY: usize = 1000;
/// Requests for one page of a long list, beyond one for each prefix of [`Wanted::begins`]. More than one is needed
/// where brokers return names that are not wanted.
const ROUNDS_MAX: usize = 8;

/// A list of things with names.
pub(super) struct List<T> {
    /// Operation that answers with pages of the list.
    pub operation: (&'static str, &'static str),
    /// Name of a row.
    pub name: fn(&T) -> &str,
    /// Figure by which brokers of Vostok sort the list.
    pub figure: &'static str,
    /// Path of the page on which the list is shown.
    pub path: &'static str,
}

/// The part of a list that is on a page of it.
pub(super) struct Part<T> {
    pub rows: Vec<T>,
    place: Place,
}

/// The rows of a page that are wanted.
pub(super) struct Wanted<'a, T, W> {
    /// Prefixes of the wanted names, in the order of names; `[""]` for all names.
    pub begins: &'a [&'a str],
    /// Whether a name is wanted.
    pub is_wanted: W,
    /// Order of the rows of a short list.
    pub order: &'a (dyn Fn(&T, &T) -> Ordering + Send + Sync),
}

/// Position of a part in its list.
#[derive(Debug, PartialEq)]
enum Place {
    /// A page by its number, of so many rows that were found.
    Page { page: usize, found: usize },
    /// A part of a long list. `next` is the name after which the next part begins, if there is one. `is_by_name` tells
    /// whether the rows are in the order of names.
    Behind { next: Option<String>, is_by_name: bool },
}

impl<T: Clone + Send + Sync + 'static> List<T> {
    /// Returns the rows of the page that `fields` ask for: wanted names that contain the text `q`. A short list has the
    /// caller's order. A long list is in the order of names; only its first page can be in the order of the list's
    /// figure.
    ///
    /// # Errors
    /// [`Refusal`] when no server tells.
    pub async fn part<W: Fn(&str) -> bool>(
        &self,
        app: &App,
        who: &Visitor,
        fields: &Fields,
        Wanted { begins, is_wanted, order }: Wanted<'_, T, W>,
    ) -> Result<Part<T>, Refusal> {
        // That a list is long is remembered for longer than its names are: to find it out costs the brokers a page.
        let is_long = |listed: &[T]| listed.len() >= MANY;
        if !is_long(&self.whole(app, who, LONG_MS).await?) {
            let all = self.whole(app, who, NAMES_MS).await?;
            // The list may have grown meanwhile, as while brokers start.
            if !is_long(&all) {
                let mut all = all.to_vec();
                all.sort_by(order);
                return Ok(part(&all, self.name, fields, is_wanted));
            }
        }
        if fields.get("sort").is_some_and(|sort| sort == format!("-{}", self.figure))
            && ["q", "after"].iter().all(|name| fields.get(name).is_none())
        {
            let mut rows = self.whole(app, who, NAMES_MS).await?.to_vec();
            rows.retain(|row| is_wanted((self.name)(row)));
            rows.sort_by(order);
            rows.truncate(PAGE);
            return Ok(Part { rows, place: Place::Behind { next: None, is_by_name: false } });
        }
        let limit = (PAGE + SPARE).to_string();
        let rounds_max = ROUNDS_MAX + begins.len();
        let mut walk = Walk { name: self.name, rows: Vec::new(), rounds: 0, rounds_max };
        for begin in begins {
            // The name may be the beginning itself.
            let before = begin.get(..begin.len().saturating_sub(1)).unwrap_or_default();
            let mut after = Some(fields.text("after").max(before).to_owned());
            while let Some(from) = after.take().filter(|_| walk.goes_on()) {
                let given = [("contains", fields.text("q")), ("after", &*from), ("limit", &*limit)];
                let listed = app.typed::<Vec<T>>(who, self.operation, &given, NAMES_MS).await?;
                after = walk.take(&listed, begin, &is_wanted);
                if after.is_some() && walk.rounds == rounds_max && walk.rows.len() <= PAGE {
                    return Ok(Part {
                        rows: walk.rows,
                        place: Place::Behind { next: after, is_by_name: true },
                    });
                }
            }
        }
        Ok(walk.end())
    }

    /// Returns the first [`MANY`] rows and a few more, so that the caller sees whether the list is long. The rows are
    /// in the order of the list's figure if all brokers sort.
    async fn whole(&self, app: &App, who: &Visitor, fresh_ms: i64) -> Result<Arc<Vec<T>>, Refusal> {
        let limit = (MANY + SPARE).to_string();
        let sorted = [("limit", limit.as_str()), ("sort", self.figure)];
        match app.typed(who, self.operation, &sorted, fresh_ms).await {
            // Brokers of RocketMQ do not sort.
            Err(refusal) if refusal.status == StatusCode::BAD_REQUEST => {
                app.typed(who, self.operation, &sorted[..1], fresh_ms).await
            }
            listed => listed,
        }
    }
}

/// The rows of a page of a long list while they are gathered.
struct Walk<T> {
    name: fn(&T) -> &str,
    rows: Vec<T>,
    rounds: usize,
    rounds_max: usize,
}

impl<T: Clone> Walk<T> {
    fn goes_on(&self) -> bool {
        self.rows.len() <= PAGE && self.rounds < self.rounds_max
    }

    /// Adds the wanted rows of an answer. Returns the name after which the next request asks, or `None` if no name with
    /// the prefix is left.
    fn take(&mut self, listed: &[T], begin: &str, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
        self.rounds += 1;
        let name = |row: &T| (self.name)(row).to_owned();
        let fits = |row: &&T| name(row).starts_with(begin) && is_wanted(&name(row));
        let last = listed.last().map(name)?;
        let is_over = listed.len() <= PAGE || (*last > *begin && !last.starts_with(begin));
        let is_passed_over = last.starts_with('%') && !is_wanted(&last);
        self.rows.extend(listed.iter().filter(fits).cloned());
        // Retry topics and dead letters, of which there may be many, come before all other names.
        (!is_over).then(|| if is_passed_over { "&".to_owned() } else { last })
    }

    fn end(mut self) -> Part<T> {
        let has_more = self.rows.len() > PAGE;
        self.rows.truncate(PAGE);
        let last = self.rows.last().map(|row| (self.name)(row).to_owned());
        Part { rows: self.rows, place: Place::Behind { next: last.filter(|_| has_more), is_by_name: true } }
    }
}

/// Finds rows whose name contains a text in upper or lower case, and takes a page of them.
pub(super) fn part<T: Clone>(
    all: &[T],
    name: impl Fn(&T) -> &str,
    fields: &Fields,
    is_wanted: impl Fn(&str) -> bool,
) -> Part<T> {
    let wanted = fields.text("q").to_lowercase();
    let is_found = |row: &&T| {
        let name = name(row);
        is_wanted(name) && (wanted.is_empty() || name.to_lowercase().contains(&wanted))
    };
    let found = all.iter().filter(is_found).count();
    let page = fields.page().min(found.div_ceil(PAGE).max(1));
    let rows = all.iter().filter(is_found).skip((page - 1) * PAGE).take(PAGE).cloned().collect();
    Part { rows, place: Place::Page { page, found } }
}

impl<T> Part<T> {
    /// Number of rows in all parts; `None` in a long list.
    pub fn found(&self) -> Option<usize> {
        match self.place {
            Place::Page { found, .. } => Some(found),
            Place::Behind { .. } => None,
        }
    }

    /// The fields with the order of the rows. Rows of a long list are in the order of names, whatever order the visitor
    /// asked for.
    pub fn order(&self, fields: &Fields, by_name: &str) -> Fields {
        match &self.place {
            Place::Behind { is_by_name: true, .. } => Fields::parse(&fields.with("sort", by_name)[1..]),
            _ => fields.clone(),
        }
    }

    /// Links to the parts beside this one.
    pub fn links(&self, lang: Lang, path: &str, fields: &Fields) -> Markup {
        let link = |page: usize| format!("{path}{}", fields.with("page", &page.to_string()));
        html! {
            @if self.found().is_none() { p.small { (lang.say("The list is long: the search tells capital from small letters")) } }
            nav.pages aria-label=(lang.say("Page")) {
                @match &self.place {
                    Place::Page { page, found } => {
                        @let last = found.div_ceil(PAGE).max(1);
                        @if *page > 1 { a rel="prev" href=(link(page - 1)) { (lang.say("Previous")) } }
                        span { (number(i64::try_from(*found).unwrap_or(i64::MAX))) " " (lang.say("found")) " · " (lang.say("Page")) " " (page) " / " (last) }
                        @if *page < last { a rel="next" href=(link(page + 1)) { (lang.say("Next")) } }
                    }
                    Place::Behind { next, .. } => {
                        @if fields.get("after").is_some() { a rel="prev" href=(format!("{path}{}", fields.with("after", ""))) { (lang.say("First page")) } }
                        @if let Some(next) = next { a rel="next" href=(format!("{path}{}", fields.with("after", next))) { (lang.say("Next")) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(names: impl IntoIterator<Item = String>) -> Vec<String> {
        names.into_iter().collect()
    }

    fn walk() -> Walk<String> {
        Walk { name: String::as_str, rows: Vec::new(), rounds: 0, rounds_max: ROUNDS_MAX }
    }

    #[test]
    fn short_lists_are_searched_and_paged() {
        let all = topics((0..120).map(|number| format!("Order{number:03}")));
        let page = |text: &str| part(&all, String::as_str, &Fields::parse(text), |_| true);
        let third = page("page=3");
        assert_eq!((third.found(), third.rows.len(), third.rows[0].as_str()), (Some(120), 20, "Order100"));
        assert_eq!(page("q=order11").found(), Some(10));
        assert_eq!(page("page=99").rows.len(), 20, "the last page");
        assert_eq!(page("q=absent").rows.len(), 0);
    }

    #[test]
    fn long_lists_are_walked_until_a_page_is_full() {
        let mut walk = walk();
        let is_wanted = |name: &str| !name.starts_with('%');
        let retry = topics((0..51).map(|number| format!("%RETRY%g{number:02}")));
        assert_eq!(
            walk.take(&retry, "", is_wanted).as_deref(),
            Some("&"),
            "what is not wanted is passed over"
        );
        let orders = topics((0..51).map(|number| format!("Order{number:02}")));
        assert_eq!(walk.take(&orders, "", is_wanted).as_deref(), Some("Order50"));
        assert!(!walk.goes_on(), "the page is full");
        let part = walk.end();
        assert_eq!((part.rows.len(), part.found()), (PAGE, None));
        assert_eq!(part.place, Place::Behind { next: Some("Order49".to_owned()), is_by_name: true });
        let shown =
            |part: &Part<String>| part.order(&Fields::parse("q=a&sort=-in"), "name").text("sort").to_owned();
        assert_eq!(shown(&part), "name", "the order that the rows have");
    }

    #[test]
    fn names_of_a_kind_end_with_their_beginning() {
        let mut walk = walk();
        let mut told = topics((0..10).map(|number| format!("%RETRY%g{number}")));
        told.extend(topics((0..41).map(|number| format!("Order{number:02}"))));
        assert_eq!(walk.take(&told, "%RETRY%", |_| true), None);
        let part = walk.end();
        assert_eq!((part.rows.len(), part.place), (10, Place::Behind { next: None, is_by_name: true }));
    }
}
