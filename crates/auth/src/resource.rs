//! Resources: the needs of a request, and the patterns of policies that match them (`Resource`).

use std::borrow::Cow;
use std::fmt;

use wire::names::RETRY_PREFIX;

use crate::names::{Actions, ResourceType};

/// A resource that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    /// Kind of the resource.
    pub kind: ResourceType,
    /// Name of the resource, without the prefix of a retry topic.
    pub name: Cow<'a, str>,
}

impl<'a> Resource<'a> {
    /// Makes the resource of a topic. The retry topic of a group counts as the group, because a member that may
    /// consume may send messages back.
    pub fn topic(name: &'a str) -> Self {
        match name.starts_with(RETRY_PREFIX) {
            true => Self::group(name),
            false => Self { kind: ResourceType::Topic, name: Cow::Borrowed(name) },
        }
    }

    /// The consumer group with this name, which may be given as its retry topic.
    pub fn group(name: &'a str) -> Self {
        let name = name.strip_prefix(RETRY_PREFIX).unwrap_or(name);
        Self { kind: ResourceType::Group, name: Cow::Borrowed(name) }
    }

    /// The cluster with this name.
    pub const fn cluster(name: &'a str) -> Self {
        Self { kind: ResourceType::Cluster, name: Cow::Borrowed(name) }
    }

    /// Copies the name, for resources that a body names.
    pub fn into_owned(self) -> Resource<'static> {
        Resource { kind: self.kind, name: Cow::Owned(self.name.into_owned()) }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

/// Permission that a request needs: any of the actions on the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission<'a> {
    /// The resource that the request is about.
    pub resource: Resource<'a>,
    /// The actions of which one must be allowed.
    pub actions: Actions,
}

impl<'a> Permission<'a> {
    /// Makes the need of any of the actions on a resource.
    pub const fn new(resource: Resource<'a>, actions: Actions) -> Self {
        Self { resource, actions }
    }
}

impl fmt::Display for Permission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource, self.actions)
    }
}

/// Which names of a kind a pattern matches. The order is the order in which entries decide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamePattern {
    /// A single name.
    Literal(Box<str>),
    /// All names with this prefix.
    Prefixed(Box<str>),
    /// All names.
    Any,
}

/// The resources that an entry of a policy is about: `*`, `Topic:*`, `Topic:orders` or `Topic:orders*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The kind of the resources; `None` for resources of all kinds.
    pub(crate) kind: Option<ResourceType>,
    /// The names of the resources.
    pub(crate) names: NamePattern,
}

impl Pattern {
    /// The pattern that matches exactly one resource.
    pub(crate) fn literal(resource: Resource<'_>) -> Self {
        Self { kind: Some(resource.kind), names: NamePattern::Literal(resource.name.into()) }
    }

    /// Parses the text of a pattern; `None` when its kind is unknown (`Resource.parseResource`).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self { kind: None, names: NamePattern::Any });
        }
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let names = match name.split_once('*') {
            Some(("", _)) if name.ends_with('*') => NamePattern::Any,
            Some((prefix, _)) if name.ends_with('*') => NamePattern::Prefixed(prefix.into()),
            _ => NamePattern::Literal(name.into()),
        };
        Some(Self { kind: Some(ResourceType::from_name(kind)?), names })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(kind) = self.kind else { return f.write_str("*") };
        match &self.names {
            NamePattern::Literal(name) => write!(f, "{kind}:{name}"),
            NamePattern::Prefixed(prefix) => write!(f, "{kind}:{prefix}*"),
            NamePattern::Any => write!(f, "{kind}:*"),
        }
    }
}
