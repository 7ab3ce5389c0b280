//! Parsed parts of a request: names with values from queries and forms, cookies. Also encodes both for links.

use http::{HeaderMap, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that are percent-encoded: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Most values of a request; further ones are dropped.
const VALUES_MAX: usize = 64;

/// Names with values, from a query or a form (`application/x-www-form-urlencoded`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads a query or a form.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).take(VALUES_MAX);
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        )
    }

    /// A value that is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A value; empty when it was not given.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// The names of all values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// A number from 1 on; 1 for anything else.
    pub fn page(&self) -> usize {
        self.get("page").and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
    }

    /// The fields as a query without some of them.
    pub fn without(&self, names: &[&str]) -> String {
        let others = self.0.iter().filter(|(key, value)| !names.contains(&key.as_str()) && !value.is_empty());
        query(others.map(|(key, value)| (key.as_str(), value.as_str())))
    }

    /// The fields as a query with one of them replaced, for the first page of a list.
    pub fn first_with(&self, name: &str, value: &str) -> String {
        Self::parse(&self.without(&["page", "after"])[1..]).with(name, value)
    }

    /// The fields as a query with one of them replaced.
    pub fn with(&self, name: &str, value: &str) -> String {
        let others = self.0.iter().filter(|(key, value)| key != name && !value.is_empty());
        let pairs = others.map(|(key, value)| (key.as_str(), value.as_str())).chain([(name, value)]);
        query(pairs)
    }
}

/// A query with its question mark.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.into_iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    format!("?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Percent-encodes a text for a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Undoes percent-encoding; a plus is a blank. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}

/// The value of a header as text.
pub(crate) fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_encoded() {
        let fields = Fields::parse("a=%25DLQ%25g+1&b=&c&d=%E4%B8%AD%zz%4&a=second");
        assert_eq!((fields.text("a"), fields.get("b"), fields.text("d")), ("%DLQ%g 1", None, "中%zz%4"));
        assert_eq!(Fields::parse(&fields.with("b", "&?")[1..]).text("b"), "&?");
        assert_eq!(Fields::parse("page=0").page(), 1);
        assert_eq!(Fields::parse("q=a&page=3&after=x").first_with("type", "b"), "?q=a&type=b");
        assert_eq!(decode(&encode("<script>&\"'中%")), "<script>&\"'中%");
    }

    #[test]
    fn cookies_are_found() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, "x=1; y=2;z".parse().unwrap());
        assert_eq!((cookie(&headers, "y"), cookie(&headers, "z")), (Some("2"), None));
    }
}
