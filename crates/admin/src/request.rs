//! Requests to servers, and reading their answers.

use crate::Error;
use client::Response;
use serde::Deserialize;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use wire::codes::request;
use wire::frame::FrameWriter;
use wire::json;

/// Form in which a dry run shows the body of a request.
#[derive(Clone, Copy)]
enum Shown {
    Whole,
    Length,
    Nothing,
}

/// A request: its code, header fields and body.
#[derive(Clone)]
pub(crate) struct Request {
    pub code: i32,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    shown: Shown,
}

impl Request {
    /// A request without fields and body.
    pub fn new(code: i32) -> Self {
        Self { code, fields: Vec::new(), body: Vec::new(), shown: Shown::Whole }
    }

    /// Adds a header field.
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.fields.push((key, value.to_string()));
        self
    }

    /// Adds a header field if there is a value.
    pub fn maybe(self, key: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Sets the body.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Sets a body that must not be shown, because it has a password.
    pub fn secret(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), shown: Shown::Nothing, ..self }
    }

    /// Sets the body to that of a message. Only its length is shown, because a user with permission to send may
    /// lack the permission to read.
    pub fn message(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), shown: Shown::Length, ..self }
    }

    /// Writes the frame.
    pub fn write(&self, frame: FrameWriter<'_>) {
        self.fields.iter().fold(frame, |frame, (key, value)| frame.text(key, value)).finish(&self.body);
    }

    /// Name of the request (`RequestCode`).
    pub fn name(&self) -> String {
        request::name(self.code).map_or_else(|| self.code.to_string(), str::to_owned)
    }

    /// Fields and body as a line of text, without secrets and bodies of messages.
    pub fn content(&self) -> String {
        let fields: Vec<_> = self.fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let body = match self.shown {
            Shown::Whole => String::from_utf8_lossy(&self.body),
            Shown::Length => format!("({} bytes, not shown)", self.body.len()).into(),
            Shown::Nothing => "(not shown)".into(),
        };
        [fields.join(" "), body.trim_end().replace('\n', " ")].join(" ").trim().to_owned()
    }
}

/// Requests that are under way at once.
const AT_ONCE: usize = 16;

/// Makes a call for each item, a few of them at once; the outcomes are in the order of the items.
pub(crate) async fn for_each<I, F: Future>(
    items: impl IntoIterator<Item = I>,
    mut call: impl FnMut(I) -> F,
) -> Vec<F::Output> {
    let mut items = items.into_iter();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    let mut outcomes: Vec<Option<F::Output>> = Vec::new();
    poll_fn(|context| {
        loop {
            for item in items.by_ref().take(AT_ONCE - running.len()) {
                running.push((outcomes.len(), Box::pin(call(item))));
                outcomes.push(None);
            }
            let count = running.len();
            running.retain_mut(|(place, future)| match future.as_mut().poll(context) {
                Poll::Ready(outcome) => {
                    outcomes[*place] = Some(outcome);
                    false
                }
                Poll::Pending => true,
            });
            match running.len() {
                0 if count == 0 => return Poll::Ready(()),
                left if left == count => return Poll::Pending,
                _ => {}
            }
        }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}

/// Splits the outcomes of a call to several servers into the answers and the failures.
///
/// # Errors
/// The first failure when none answered.
pub(crate) fn split<T>(outcomes: Vec<Result<T, Error>>) -> Result<(Vec<T>, Vec<Error>), Error> {
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(answer) => answers.push(answer),
            Err(why) => failures.push(why),
        }
    }
    if answers.is_empty() && !failures.is_empty() {
        return Err(failures.swap_remove(0));
    }
    Ok((answers, failures))
}

/// Reads the JSON body of an answer.
pub(crate) fn body<T: for<'a> Deserialize<'a>>(server: &str, reply: &Response) -> Result<T, Error> {
    json::from_slice(&reply.body).map_err(|why| malformed(server, why.to_string()))
}

/// Reads a number from the header of an answer.
pub(crate) fn number(server: &str, reply: &Response, field: &str) -> Result<i64, Error> {
    let text = reply.text(field);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| malformed(server, format!("expected a number as {field}, found {text:?}")))
}

fn malformed(server: &str, why: String) -> Error {
    client::Error::Answer { address: server.to_owned(), why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn outcomes_are_in_the_order_of_their_items() {
        let (mut started, mut most) = (0, 0);
        let running = std::cell::Cell::new(0);
        let outcomes = for_each(0..100, |item| {
            started += 1;
            running.set(running.get() + 1);
            most = running.get().max(most);
            let running = &running;
            async move {
                // The even ones are ready later than those after them.
                for _ in 0..(item + 1) % 2 * 3 {
                    tokio::task::yield_now().await;
                }
                running.set(running.get() - 1);
                item
            }
        });
        assert_eq!(outcomes.await, (0..100).collect::<Vec<_>>());
        assert_eq!((started, most), (100, AT_ONCE));
    }

    #[test]
    fn what_servers_told_counts_unless_nobody_told_anything() {
        let failed = |text: &str| Err(Error::NotFound(text.to_owned()));
        let (answers, failures) = split(vec![Ok(1), failed("b"), Ok(3)]).unwrap();
        assert_eq!((answers, failures.len()), (vec![1, 3], 1));
        assert_eq!(split::<i32>(vec![failed("a"), failed("b")]).unwrap_err().to_string(), "a");
        assert!(split::<i32>(Vec::new()).unwrap().0.is_empty(), "nobody was asked");
    }

    #[test]
    fn a_secret_is_not_shown() {
        let request = Request::new(request::AUTH_CREATE_USER).with("username", "alice").secret("hidden");
        assert_eq!(
            (request.name(), request.content()),
            ("AUTH_CREATE_USER".into(), "username=alice (not shown)".into())
        );
        assert_eq!(Request::new(1).body("a=b\n").content(), "a=b");
        assert_eq!(
            Request::new(1).with("topic", "T").message("text").content(),
            "topic=T (4 bytes, not shown)"
        );
    }
}
