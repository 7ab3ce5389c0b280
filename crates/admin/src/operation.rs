//! Operations: rows of the table.

use crate::request::Request;
use crate::{Argument, Arguments, Error, Session};
use serde::Serialize;
use serde_json::Value;
use std::any::Any;
use std::pin::Pin;

/// Effect of an operation on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The operation only reads.
    Look,
    /// The operation changes something that can be changed back.
    Change,
    /// The operation removes something that cannot be restored, or lets messages be skipped. It asks before.
    Destroy,
}

/// The future of an operation's answer.
pub(crate) type Call<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Answer>, Error>> + Send + 'a>>;

/// An operation: a row of [`OPERATIONS`](crate::OPERATIONS).
#[derive(Debug)]
pub struct Operation {
    /// Subject of the operation, the first word on the command line.
    pub noun: &'static str,
    /// Action on the subject, the second word on the command line.
    pub verb: &'static str,
    /// Names of `mqadmin` for the operation. Several operations may share a name. The first operation of the table
    /// whose required arguments are all given is performed.
    pub mqadmin: &'static [&'static str],
    /// Effect on the cluster.
    pub effect: Effect,
    /// Sentence for help and documentation.
    pub about: &'static str,
    /// Arguments of the operation; arguments without a flag in their order.
    pub arguments: &'static [Argument],
    /// Function that performs the operation.
    pub(crate) call: for<'a> fn(&'a Session, &'a Arguments) -> Call<'a>,
}

impl Operation {
    /// Performs the operation in a session.
    ///
    /// # Errors
    /// [`Error`] when the arguments do not fit, or a server refuses or does not answer.
    pub async fn perform(&self, session: &Session, arguments: &Arguments) -> Result<Box<dyn Answer>, Error> {
        (self.call)(session, arguments).await.map_err(Error::about_groups)
    }

    /// Performs the operation, whose answer is a `T`.
    ///
    /// # Errors
    /// Errors of [`Self::perform`], and [`Error::Usage`] if the answer has another type.
    pub async fn perform_typed<T: Any>(&self, session: &Session, arguments: &Arguments) -> Result<T, Error> {
        let answer: Box<dyn Any> = self.perform(session, arguments).await?;
        let (noun, verb) = (self.noun, self.verb);
        let other = |_| Error::Usage(format!("{noun} {verb} answers with another type"));
        answer.downcast().map(|answer| *answer).map_err(other)
    }
}

/// The answer of an operation, a value of the operation's own type. Fronts cast it to that type by way of [`Any`].
pub trait Answer: Any + Send + Sync {
    /// The answer as data: a list of rows, or an object that may contain one.
    fn value(&self) -> Value;

    /// The answer as `mqadmin` prints it.
    fn mqadmin(&self, arguments: &Arguments) -> String;

    /// Sentence about the named thing that was not found. `vostok admin` fails with it; `mqadmin` prints nothing then.
    fn missing(&self, arguments: &Arguments) -> Option<String>;

    /// Removes secrets, and bodies of messages unless the reader may see them.
    fn redact(&mut self, sees_bodies: bool);
}

/// A type that operations answer with.
pub(crate) trait Typed: Serialize + Send + Sync + 'static {
    /// The answer as `mqadmin` prints it. Empty for the answer of an operation without a name of `mqadmin`.
    fn mqadmin(&self, _: &Arguments) -> String {
        String::new()
    }

    /// Sentence of [`Answer::missing`].
    fn missing(&self, _: &Arguments) -> Option<String> {
        None
    }

    /// Removes secrets, see [`Answer::redact`]. Types with secrets or bodies of messages must implement it.
    fn redact(&mut self, _sees_bodies: bool) {}
}

impl<T: Typed> Answer for T {
    fn value(&self) -> Value {
        serde_json::to_value(self).expect("answers have text as keys")
    }

    fn mqadmin(&self, arguments: &Arguments) -> String {
        Typed::mqadmin(self, arguments)
    }

    fn missing(&self, arguments: &Arguments) -> Option<String> {
        Typed::missing(self, arguments)
    }

    fn redact(&mut self, sees_bodies: bool) {
        Typed::redact(self, sees_bodies);
    }
}

/// Performs a call whose answer is typed.
pub(crate) fn perform<'a, T: Typed, F: Future<Output = Result<T, Error>> + Send + 'a>(
    session: &'a Session,
    arguments: &'a Arguments,
    call: impl FnOnce(&'a Session, &'a Arguments) -> F,
) -> Call<'a> {
    let call = call(session, arguments);
    Box::pin(async { call.await.map(|answer| Box::new(answer) as Box<dyn Answer>) })
}

/// The rows of a noun: verb, effect, names of `mqadmin`, what the operation does, its arguments, and its call, a
/// function of session and arguments.
macro_rules! operations {
    ($noun:literal: $($verb:literal, $effect:ident, [$($name:literal),*], $about:literal,
        [$($argument:expr),*], $call:expr;)*) => {
        &[$($crate::operation::Operation {
            noun: $noun,
            verb: $verb,
            mqadmin: &[$($name),*],
            effect: $crate::Effect::$effect,
            about: $about,
            arguments: &[$($argument),*],
            call: |session, arguments| $crate::operation::perform(session, arguments, $call),
        }),*]
    };
}
pub(crate) use operations;

/// An answer whose text is made together with its data.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Written {
    value: Value,
    #[serde(skip)]
    text: String,
}

impl Written {
    /// An answer of rows or an object, and what `mqadmin` prints of it.
    pub fn new(value: impl Serialize, text: String) -> Self {
        Self { value: serde_json::to_value(value).expect("answers have text as keys"), text }
    }

    /// Adds to what `mqadmin` prints.
    pub fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

impl Typed for Written {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.text.clone()
    }
}

/// Changes servers with one request each. The answer has a line for each server, in which `{}` is the address.
pub(crate) async fn change_each(
    session: &Session,
    servers: &[String],
    request: &Request,
    line: &str,
) -> Result<Written, Error> {
    session.change_all(servers, request).await?;
    let rows: Vec<_> = servers.iter().map(|server| serde_json::json!({"server": server})).collect();
    let text = servers.iter().map(|server| line.replace("{}", server) + "\n").collect();
    Ok(Written::new(rows, text))
}
