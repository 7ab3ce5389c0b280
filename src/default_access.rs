//! Default access: clients that a start without authentication serves. A start without a RocketMQ file and without a RocketMQ
//! store serves this machine only, so that no broker is published to a network by accident. With either, the start is as
//! open as RocketMQ.

use std::path::Path;

use crate::roles::Error;

/// The answer to clients of other machines.
pub const REFUSAL: &str = "this server was started without a configuration file, so it serves its own machine only. To serve others, start it with --open, which \
     lets everybody who reaches its ports do everything, or with users: put the settings of docs/security.md into a file and start with -c FILE";

/// The advice to the operator.
pub const ADVICE: &str = "Only this machine is served. For others: start with --open, or with a file of settings (-c FILE), best with users (docs/security.md)";

/// Files of a store of RocketMQ, one of which each store has, and of a name server that was started before. A directory
/// `config` alone is no store: `vostok auth import` makes one.
const STORES: [&str; 3] = ["commitlog", "config/topics.json", "namesrv"];

/// A file in `config` of a directory that was made by a start without a configuration file.
const MARK: &str = "local-only";

/// Whether only this machine is served. Notes in a new data directory that it was made by a start without a configuration file.
///
/// # Errors
/// The data directory cannot be written.
pub fn is_local(home: &Path, has_file: bool, is_open: bool) -> Result<bool, Error> {
    let mark = home.join("config").join(MARK);
    if has_file {
        return Ok(false);
    }
    let failed = |error: auth::FileError| Error::new(format!("the data directory {}", home.display()), error);
    if !STORES.iter().any(|name| home.join(name).exists()) {
        let text = "Started without a configuration file: serves its own machine only, unless started with --open or -c FILE.\n";
        // On disk before anything of the store is, so that no crash turns the store into one that serves others.
        auth::write_file(&mark, text.as_bytes()).map_err(failed)?;
    }
    Ok(!is_open && mark.exists())
}

/// Logs once the access that a broker without authentication leaves open.
pub fn warn_of_open(config: &broker::Config) {
    let is_on = |key| config.auth.get(key).eq_ignore_ascii_case("true");
    if is_on("authenticationEnabled") || is_on("aclEnable") || config.bind_address.is_loopback() {
        return;
    }
    tracing::warn!(
        address = %config.bind_address,
        port = config.listen_port,
        "authentication is off: everybody who reaches the ports of broker and name server may read, write and change everything, as with RocketMQ; \
         docs/security.md says how to switch it on"
    );
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn users_that_were_imported_before_the_first_start_are_no_store_of_rocketmq() {
        let home = tempfile::tempdir().expect("a temporary directory");
        auth::write_file(&home.path().join("config/users.json"), b"[]").expect("writable");
        assert!(is_local(home.path(), false, false).expect("readable"));
    }

    #[test]
    fn only_a_new_directory_without_a_file_is_for_this_machine_only() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let new = home.path().join("new");
        let is_local = |home: &Path, has_file, is_open| is_local(home, has_file, is_open).expect("readable");
        assert!(!is_local(&new, true, false), "with a file");
        assert!(!new.exists());
        assert!(!is_local(&new, false, true), "with --open");
        assert!(is_local(&new, false, false), "later without it");
        assert!(!is_local(&new, true, false), "later with a file");
        assert!(is_local(&new, false, false), "and again without");
        let store = home.path().join("store");
        fs::create_dir_all(store.join("commitlog")).expect("writable");
        assert!(!is_local(&store, false, false), "a store of RocketMQ");
        assert!(is_local(&home.path().join("other/new"), false, false));
    }
}
