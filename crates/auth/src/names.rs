//! The words of Auth 2.0 as types: kinds of users, resources, actions, policies and decisions. As in RocketMQ, names are read
//! in any case.

use std::fmt;

/// Declares enumerations whose variants have the names of RocketMQ.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every value in the order in which they are written.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The value with this name, in any case of letters; `None` for an unknown name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| name.eq_ignore_ascii_case(it.name()))
            }

            /// The name as RocketMQ writes it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )+};
}

words! {
    /// Type of a user, which decides about permissions without an acl (`UserType`).
    UserType {
        /// The user may do everything.
        Super = "Super",
        /// The user has the permissions of its acl.
        Normal = "Normal",
    }

    /// Whether a user is served (`UserStatus`).
    UserStatus {
        /// Requests of the user are served.
        Enable = "enable",
        /// Requests of the user are refused.
        Disable = "disable",
    }

    /// Kind of a resource that requests need (`ResourceType`).
    ResourceType {
        /// The cluster that the broker belongs to.
        Cluster = "Cluster",
        /// A namespace.
        Namespace = "Namespace",
        /// A topic.
        Topic = "Topic",
        /// A consumer group.
        Group = "Group",
    }

    /// Which policy of an acl an entry belongs to (`PolicyType`).
    PolicyType {
        /// The entries that are examined first.
        Custom = "Custom",
        /// The entries that count when no entry of the custom policy matches.
        Default = "Default",
    }

    /// Decision of an entry about matching requests (`Decision`).
    Decision {
        /// The request is served.
        Allow = "Allow",
        /// The request is refused.
        Deny = "Deny",
    }

    /// Action of a request on a resource (`Action`).
    Action {
        /// Every action; only for entries of policies.
        All = "All",
        /// Sending messages.
        Pub = "Pub",
        /// Receiving messages.
        Sub = "Sub",
        /// Creating a resource.
        Create = "Create",
        /// Changing a resource.
        Update = "Update",
        /// Removing a resource.
        Delete = "Delete",
        /// Reading a single resource.
        Get = "Get",
        /// Listing resources.
        List = "List",
    }
}

/// Set of actions. A request that needs several is served if one of them is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Actions(u8);

impl Actions {
    /// The set of these actions.
    pub const fn of(actions: &[Action]) -> Self {
        let mut set = Self(0);
        let mut at = 0;
        while at < actions.len() {
            set = set.with(actions[at]);
            at += 1;
        }
        set
    }

    /// Whether the set has no action.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether an entry with this set concerns a request that needs any of `needed`.
    pub const fn cover(self, needed: Self) -> bool {
        self.0 & (needed.0 | Self::of(&[Action::All]).0) != 0
    }

    /// Adds an action to the set.
    #[must_use]
    pub const fn with(self, action: Action) -> Self {
        Self(self.0 | 1 << action as u8)
    }

    /// The actions of the set in the order of [`Action`].
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.iter().copied().filter(move |action| self.0 & (1 << *action as u8) != 0)
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Action::name).collect();
        f.write_str(&names.join(","))
    }
}
