//! `vostok auth`: users and acls from a running broker into the files of a store, and back. A Java broker keeps them in RocksDB,
//! which is not read here, so a running broker is asked.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use auth::{Auth, AuthConfig, PlainFiles};
use clap::{Args, Subcommand};
use client::{Client, Credentials};
use serde::de::DeserializeOwned;
use wire::body::{AclInfo, UserInfo};
use wire::codes::response;
use wire::json;

use crate::auth_explain::Explain;
use crate::call;
use crate::roles::Error;
use crate::{security, words};

/// Environment variables of the credentials, when no flags name them.
const KEYS: [&str; 2] = ["ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"];
/// Files of users and of their acls.
const USERS: &str = "users.json";
const ACLS: &str = "acls.json";

/// Subcommands of `vostok auth`.
#[derive(Subcommand)]
pub enum AuthCommand {
    /// Read users and acls of a running broker, of RocketMQ 5.3 or later or Vostok, into users.json and acls.json.
    #[command(after_help = "Example, for the store of a Java broker that is still running:
  vostok auth import --from 10.0.0.7:10911 --out /data/rocketmq/store/config --ak root --sk SECRET

The files hold passwords in clear text, and only their owner may read them. Files that exist are not replaced.")]
    Import(Import),
    /// Write users and acls of users.json and acls.json to a running broker, of RocketMQ 5.3 or later or Vostok.
    #[command(after_help = "Example:
  vostok auth export --to 10.0.0.7:10911 --in /data/rocketmq/store/config --ak root --sk SECRET

Users that exist get the password, type and status of the file, entries of acls for the same resource are replaced, and others
stay. The user that signs comes last, so that a new password of its own does not end the command.")]
    Export(Export),
    /// Print the rules that are looked at for a request of a user, and the one that decides.
    #[command(after_help = "Example, may alice send to orders:
  vostok auth explain --user alice --request 310 --topic orders --from 10.0.0.9 -c conf/broker.conf

The files are read and not changed, and no broker is asked. Codes of requests are in docs/requests.md.")]
    Explain(Explain),
}

/// Arguments of `vostok auth import`.
#[derive(Args)]
pub struct Import {
    /// The broker that is asked.
    #[arg(long, value_name = "HOST:PORT", value_parser = call::broker)]
    from: String,
    /// Directory of the files: config below the store's directory.
    #[arg(long, value_name = "DIR", default_value = "./data/config")]
    out: PathBuf,
    #[command(flatten)]
    access: Access,
}

/// Arguments of `vostok auth export`.
#[derive(Args)]
pub struct Export {
    /// The broker that is written to.
    #[arg(long, value_name = "HOST:PORT", value_parser = call::broker)]
    to: String,
    /// Directory of the files: config below the store's directory.
    #[arg(long = "in", value_name = "DIR", default_value = "./data/config")]
    input: PathBuf,
    #[command(flatten)]
    access: Access,
}

/// A super user of the servers that are asked. Without keys the requests have no signature.
#[derive(Args)]
pub struct Access {
    /// Access key of a super user; else the environment's ROCKETMQ_ACCESS_KEY.
    #[arg(long = "ak", alias = "accessKey", value_name = "NAME")]
    access_key: Option<String>,
    /// Secret key of that access key; else the environment's ROCKETMQ_SECRET_KEY, which other users of the machine do
    /// not see.
    #[arg(long = "sk", alias = "secretKey", value_name = "SECRET")]
    secret_key: Option<String>,
}

impl Access {
    /// Calls `ask` with a client that signs with these keys and uses TLS as the environment says. `server` is any of
    /// the servers that `ask` calls: it takes the place of a name server in the client's configuration.
    ///
    /// # Errors
    /// One of the two keys is missing; settings of TLS cannot be used; the client cannot be started; otherwise that of
    /// `ask`.
    pub fn with_client<T>(
        &self,
        server: &str,
        ask: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let credentials =
            self.keys()?.map(|(access_key, secret_key)| Credentials::new(&access_key, &secret_key));
        let (_, security) = security::take(b"")?;
        let client = call::client(server, security, credentials)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::new("the runtime cannot be started", error))?;
        let done = runtime.block_on(ask(&client));
        client.shutdown();
        done
    }

    /// Access key and secret key; `None` without both.
    ///
    /// # Errors
    /// One of the two is missing.
    fn keys(&self) -> Result<Option<(String, String)>, Error> {
        let [access_key, secret_key] = [(&self.access_key, KEYS[0]), (&self.secret_key, KEYS[1])]
            .map(|(flag, name)| flag.clone().or_else(|| std::env::var(name).ok()));
        match (access_key, secret_key) {
            (Some(access_key), Some(secret_key)) => Ok(Some((access_key, secret_key))),
            (None, None) => Ok(None),
            (key, _) => {
                let found = if key.is_some() { "only the access key" } else { "only the secret key" };
                let expected = format!("expected --ak and --sk, or {} and {}", KEYS[0], KEYS[1]);
                Err(Error::new(expected, format!("found {found}")))
            }
        }
    }
}

/// Runs a command.
pub fn run(command: &AuthCommand) -> Result<(), Error> {
    match command {
        AuthCommand::Explain(explain) => print(&explain.run()?),
        AuthCommand::Import(import) => {
            print(&import.access.with_client(&import.from, async |client| import.run(client).await)?)
        }
        AuthCommand::Export(export) => {
            let own = export.access.keys()?.map(|(access_key, _)| access_key);
            let run = async |client: &Client| export.run(client, own.as_deref()).await;
            print(&export.access.with_client(&export.to, run)?)
        }
    }
}

fn print(text: &str) -> Result<(), Error> {
    // The output may have no reader.
    let _ = writeln!(io::stdout(), "{}", words::said(text));
    Ok(())
}

impl Import {
    async fn run(&self, client: &Client) -> Result<String, Error> {
        for name in [USERS, ACLS] {
            let path = self.out.join(name);
            if path.exists() {
                return Err(Error::new(
                    path.display(),
                    "exists already; move it away, or name another --out",
                ));
            }
        }
        let failed = |error| Error::new("users and acls are not imported", error);
        let mut users = client.users(&self.from).await.map_err(failed)?;
        let acls = client.acls(&self.from).await.map_err(failed)?;
        if users.iter().any(|user| user.password.is_none()) {
            let why = "it tells passwords to super users only; name one with --ak and --sk";
            return Err(Error::new(&self.from, why));
        }
        for user in &mut users {
            user.user_type.get_or_insert_with(|| "Normal".to_owned());
            user.user_status.get_or_insert_with(|| "enable".to_owned());
        }
        self.store(&users, &acls)?;
        let (count, out) = (users.len(), self.out.display());
        Ok(format!("{count} users and the acls of {} of them are in {out}/{USERS} and {ACLS}", acls.len()))
    }

    /// Writes the files beside their place, reads them as a start does, and only then puts them where a start finds them.
    fn store(&self, users: &[UserInfo], acls: &[AclInfo]) -> Result<(), Error> {
        let staging = self.out.join("import.tmp");
        let failed = |error: io::Error| Error::new(self.out.display(), error);
        let written = auth::write_file(&staging.join(ACLS), &json::to_vec(acls))
            .and_then(|()| auth::write_file(&staging.join(USERS), &json::to_vec(users)));
        written.map_err(|error| Error::new("users and acls are not imported", error))?;
        let placed = usable(&staging).and_then(|()| {
            [ACLS, USERS]
                .iter()
                .try_for_each(|name| fs::rename(staging.join(name), self.out.join(name)))
                .and_then(|()| File::open(&self.out)?.sync_all())
                .map_err(failed)
        });
        fs::remove_dir_all(&staging).map_err(failed)?;
        placed
    }
}

/// Whether a broker would start with the files of a directory.
fn usable(directory: &Path) -> Result<(), Error> {
    let mut config = AuthConfig::default();
    for (key, word) in [("authentication", "Authentication"), ("authorization", "Authorization")] {
        let class = format!("org.apache.rocketmq.auth.{key}.provider.Local{word}MetadataProvider");
        config.set(&format!("{key}MetadataProvider"), &class);
    }
    let no_rules = PlainFiles { file: directory.join("none"), directory: directory.join("none") };
    let opened = Auth::open(&config, directory, &no_rules);
    opened.map(drop).map_err(|error| Error::new("what the broker answered is not usable", error))
}

impl Export {
    async fn run(&self, client: &Client, own: Option<&str>) -> Result<String, Error> {
        let mut users: Vec<UserInfo> = self.read(USERS)?;
        let acls: Vec<AclInfo> = self.read(ACLS)?;
        users.sort_by_key(|user| user.username.as_deref() == own);
        let (others, last) = users.split_at(users.partition_point(|user| user.username.as_deref() != own));
        for user in others {
            self.put(client, user).await?;
        }
        for acl in &acls {
            let subject = acl.subject.clone().unwrap_or_default();
            let put = client.create_acl(&self.to, acl).await;
            put.map_err(|error| Error::new(format!("the acl of {subject} is not written"), error))?;
        }
        for user in last {
            self.put(client, user).await?;
        }
        Ok(format!(
            "{} users and the acls of {} of them were written to {}",
            users.len(),
            acls.len(),
            self.to
        ))
    }

    async fn put(&self, client: &Client, user: &UserInfo) -> Result<(), Error> {
        let created = client.create_user(&self.to, user).await;
        let put = match &created {
            Err(client::Error::Refused { code: response::NO_PERMISSION, remark, .. })
                if remark.contains("The user is existed") =>
            {
                client.update_user(&self.to, user).await
            }
            _ => created,
        };
        let name = user.username.as_deref().unwrap_or_default();
        put.map_err(|error| Error::new(format!("the user {name} is not written"), error))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, Error> {
        let path = self.input.join(name);
        match fs::read(&path) {
            // A broker whose users have no acls has no file of them.
            Err(error) if error.kind() == io::ErrorKind::NotFound && name == ACLS => Ok(Vec::new()),
            Err(error) => Err(Error::new(path.display(), error)),
            Ok(text) => json::from_slice(&text).map_err(|error| Error::new(path.display(), error)),
        }
    }
}
