//! `vostok console`: logins of the console.

use crate::users::{Role, Users};
use clap::{Args, Subcommand};
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `vostok console`.
#[derive(Args, Debug)]
pub struct ConsoleCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Make a login or give it a new password, which is printed once. A running console takes it over when it is started again.
    User {
        /// Name of the user.
        name: String,
        /// Role of the user.
        #[arg(long, value_enum, default_value = "viewer")]
        role: Role,
        /// Show the user bodies of messages.
        #[arg(long)]
        bodies: bool,
        /// Remove the login.
        #[arg(long, conflicts_with_all = ["role", "bodies"])]
        remove: bool,
        /// Directory of data of the server, as given to `vostok serve`.
        #[arg(long, value_name = "DIR", default_value = "./data")]
        data: PathBuf,
    },
}

impl ConsoleCommand {
    /// Changes the file of users, and prints a new password.
    ///
    /// # Errors
    /// The file cannot be read or written, or there is no user of the name to remove.
    pub fn run(&self) -> io::Result<()> {
        let What::User { name, role, bodies, remove, data } = &self.what;
        let mut users = Users::read(&data.join("console"))?;
        let mut out = io::stdout();
        if !remove {
            let password = users.set(name, *role, *bodies)?;
            return writeln!(out, "{name} ({}), password: {password}", role.name());
        }
        match users.remove(name)? {
            true => writeln!(out, "{name} is removed"),
            false => Err(io::Error::other(format!("there is no user {name}"))),
        }
    }
}
