//! The console's own users: a file with mode 0600, passwords derived with PBKDF2, and the sessions of logged-in users.

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Rounds of PBKDF2-HMAC-SHA256 (OWASP, 2023).
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");
/// Most sessions at once; the oldest ends when another begins.
const SESSIONS_MAX: usize = 1000;
/// Most bytes of the file of users.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Time after which a session ends, ms.
const SESSION_MS: i64 = 12 * 3_600_000;

/// Role of a user. Each role includes the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Looks.
    Viewer,
    /// Looks, and changes topics, groups, offsets and messages.
    Operator,
    /// Does everything: destroys, and changes servers, their settings, users and acls.
    Admin,
}

impl Role {
    /// The role as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// A user of the console.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct User {
    pub role: Role,
    /// Whether bodies of messages are shown.
    pub bodies: bool,
    salt: String,
    password: String,
}

/// All users by name, as they are in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    file: PathBuf,
    users: BTreeMap<String, User>,
}

impl Users {
    /// Reads the file; there are no users without one.
    pub fn read(home: &Path) -> io::Result<Self> {
        let file = home.join("users.json");
        let users = match auth::read_file(&file, FILE_BYTES_MAX) {
            Ok(Some(text)) => serde_json::from_slice(&text).map_err(io::Error::from),
            Ok(None) => Ok(BTreeMap::new()),
            Err(unread) => Err(unread.error),
        };
        let named = |error: io::Error| {
            let data = home.parent().unwrap_or(home).display();
            let text = format!(
                "the file of logins {} cannot be used: {error}. Put a copy of the file back, or remove the file, make the logins again with: \
                 vostok console user NAME --role admin --data {data}, and start again",
                file.display()
            );
            io::Error::new(error.kind(), text)
        };
        Ok(Self { users: users.map_err(named)?, file })
    }

    /// Whether there are no logins, so that every visitor of this machine may do everything.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Makes a user or replaces one, and returns the password, which is kept nowhere.
    pub fn set(&mut self, name: &str, role: Role, bodies: bool) -> io::Result<String> {
        let (password, salt) = (random_hex(12)?, random_hex(16)?);
        let derived = derive(&password, &salt);
        self.users.insert(name.to_owned(), User { role, bodies, salt, password: derived });
        self.write()?;
        Ok(password)
    }

    /// Removes a user; false when there is none of the name.
    pub fn remove(&mut self, name: &str) -> io::Result<bool> {
        let is_there = self.users.remove(name).is_some();
        self.write().map(|()| is_there)
    }

    fn write(&self) -> io::Result<()> {
        if let Some(directory) = self.file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let new = self.file.with_extension("new");
        let mut out =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        out.write_all(&serde_json::to_vec_pretty(&self.users)?)?;
        out.sync_all()?;
        std::fs::rename(&new, &self.file)
    }

    /// A user by name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// Names and users.
    pub fn all(&self) -> impl Iterator<Item = (&String, &User)> {
        self.users.iter()
    }

    /// Whether the password is the user's. The check takes as long for an unknown user.
    pub fn check(&self, name: &str, password: &str) -> bool {
        let known = self.users.get(name);
        let salt = known.map_or("00", |user| user.salt.as_str());
        let derived = derive(password, salt);
        known.is_some_and(|user| {
            // Equal digests, compared in constant time.
            let key = hmac::Key::new(hmac::HMAC_SHA256, salt.as_bytes());
            let tag = hmac::sign(&key, derived.as_bytes());
            hmac::verify(&key, user.password.as_bytes(), tag.as_ref()).is_ok()
        })
    }
}

fn derive(password: &str, salt: &str) -> String {
    let mut out = [0; digest::SHA256_OUTPUT_LEN];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt.as_bytes(), password.as_bytes(), &mut out);
    hex(&out)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Random bytes as hexadecimal digits.
pub(crate) fn random_hex(count: usize) -> io::Result<String> {
    let mut bytes = vec![0; count];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system has no randomness"))?;
    Ok(hex(&bytes))
}

/// Users that are logged in, by the value of the session cookie.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<String, (String, i64)>);

impl Sessions {
    /// Begins the session of a user.
    pub fn begin(&mut self, cookie: String, user: &str, now_ms: i64) {
        self.0.retain(|_, (_, since_ms)| now_ms - *since_ms < SESSION_MS);
        if self.0.len() >= SESSIONS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, (_, since_ms))| *since_ms);
            let oldest = oldest.map(|(cookie, _)| cookie.clone());
            oldest.into_iter().for_each(|cookie| drop(self.0.remove(&cookie)));
        }
        self.0.insert(cookie, (user.to_owned(), now_ms));
    }

    /// Name of the user of a session; `None` for an unknown cookie and for a session that is over.
    pub fn user(&self, cookie: &str, now_ms: i64) -> Option<&str> {
        let (user, since_ms) = self.0.get(cookie)?;
        (now_ms - since_ms < SESSION_MS).then_some(user)
    }

    /// Ends a session.
    pub fn end(&mut self, cookie: &str) {
        self.0.remove(cookie);
    }

    /// Ends all sessions of a user.
    pub fn end_all_of(&mut self, user: &str) {
        self.0.retain(|_, (name, _)| name != user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_user_logs_in_with_the_password_that_was_told_once() {
        let home = tempfile::tempdir().unwrap();
        let mut users = Users::read(home.path()).unwrap();
        assert!(users.is_empty());
        let password = users.set("alice", Role::Operator, true).unwrap();
        let again = Users::read(home.path()).unwrap();
        assert!(again.check("alice", &password));
        assert!(!again.check("alice", "wrong") && !again.check("bob", &password));
        let file = home.path().join("users.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!std::fs::read_to_string(&file).unwrap().contains(&password));
        assert!(users.remove("alice").unwrap() && !users.remove("alice").unwrap());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("users.json"), "{").unwrap();
        let error = Users::read(home.path()).unwrap_err().to_string();
        assert!(
            error.contains("users.json cannot be used: EOF") && error.contains("console user NAME"),
            "{error}"
        );
    }

    #[test]
    fn sessions_end_and_are_bounded() {
        let mut sessions = Sessions::default();
        for number in 0..=SESSIONS_MAX {
            sessions.begin(number.to_string(), "alice", number as i64);
        }
        assert_eq!((sessions.user("0", 5), sessions.user("1", 5)), (None, Some("alice")));
        assert_eq!(sessions.user("1", 1 + SESSION_MS), None);
        sessions.end("2");
        assert_eq!(sessions.user("2", 5), None);
    }
}
