//! Checks of seals ([`wire::seal`]): code and receiver of the signed request, time, and single use.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use wire::seal::{SEAL, Seal};

use crate::error::{AuthError, Result};
use crate::signature::Signable;

/// Largest difference between the clocks of a caller and of this server.
const WINDOW_MS: i64 = 300_000;

/// Most remembered seals. A further seal replaces the oldest seal, and from then on no seal of that age is valid.
const SEALS_MAX: usize = if cfg!(test) { 4 } else { 100_000 };

/// Circumstances of a request's arrival.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    /// Time of this server's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Whether an address belongs to this server; `None` if the server does not know its addresses.
    pub is_own: Option<&'a dyn Fn(&str) -> bool>,
    /// Whether another broker has forwarded the request. A broker may forward a request again.
    pub is_forwarded: bool,
}

/// The seals that were served.
#[derive(Debug, Default)]
pub(crate) struct Seals(Mutex<SealSet>);

#[derive(Debug, Default)]
struct SealSet {
    seals: BTreeSet<(i64, Box<str>)>,
    /// Time up to which no seal is valid.
    floor_ms: i64,
}

impl Seals {
    /// Checks the seal of a request whose signature was verified. For users who must seal, the seal is required and names an
    /// address of this server. For other users a seal is optional, and its address may come from address translation.
    ///
    /// # Errors
    /// [`AuthError::Seal`].
    pub(crate) fn check(&self, must_seal: bool, signed: &Signable<'_>, arrival: Arrival<'_>) -> Result<()> {
        let Some(text) = signed.fields.text(SEAL) else {
            return match must_seal && wire::seal::is_sealed(signed.code) {
                true => {
                    Err(AuthError::Seal("requests of this user must be sealed (authenticationSealedUsers)"))
                }
                false => Ok(()),
            };
        };
        let seal = Seal::parse(text).ok_or(AuthError::Seal("the seal of the request cannot be read"))?;
        if seal.code != signed.code {
            return Err(AuthError::Seal("the seal is that of a request with another code"));
        }
        if arrival.now_ms.abs_diff(seal.time_ms) > WINDOW_MS.unsigned_abs() {
            return Err(AuthError::Seal(
                "the seal is not of the last five minutes: the request was recorded, or the clocks of caller and server differ",
            ));
        }
        if arrival.is_forwarded {
            return Ok(());
        }
        if must_seal && !arrival.is_own.is_none_or(|is_own| is_own(seal.receiver)) {
            return Err(AuthError::Seal("the seal names another server"));
        }
        self.take(arrival.now_ms, &seal)
    }

    fn take(&self, now_ms: i64, seal: &Seal<'_>) -> Result<()> {
        let mut served = self.0.lock();
        while served.seals.first().is_some_and(|(time_ms, _)| *time_ms < now_ms.saturating_sub(WINDOW_MS)) {
            served.seals.pop_first();
        }
        if seal.time_ms <= served.floor_ms || !served.seals.insert((seal.time_ms, seal.nonce.into())) {
            return Err(AuthError::Seal("this sealed request was served before, or is too old to tell"));
        }
        if served.seals.len() > SEALS_MAX
            && let Some((time_ms, _)) = served.seals.pop_first()
        {
            served.floor_ms = time_ms;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;
    use wire::frame::Encoding;

    const NOW_MS: i64 = 1_700_000_000_000;
    const CODE: i32 = wire::codes::request::AUTH_LIST_USER;

    fn seal(code: i32, time_ms: i64, nonce: &str, receiver: &str) -> Option<String> {
        Some(Seal { code, time_ms, nonce, receiver }.to_string())
    }

    #[test]
    fn a_recorded_request_is_served_once_and_as_itself() {
        let (seals, own) = (Seals::default(), "10.0.0.1:10911");
        let check = |must_seal, seal: Option<String>, is_forwarded| {
            let fields: Vec<(&'static str, &str)> = seal.iter().map(|seal| (SEAL, seal.as_str())).collect();
            let is_own = |address: &str| address == own;
            let arrival = Arrival { now_ms: NOW_MS, is_own: Some(&is_own), is_forwarded };
            with_request(Encoding::Json, &fields, b"", |signed| {
                let checked = seals.check(must_seal, &Signable { code: CODE, ..signed }, arrival);
                checked.map_or_else(|error| error.to_string(), |()| "served".to_owned())
            })
        };
        assert_eq!(check(false, None, false), "served");
        assert!(check(true, None, false).contains("must be sealed"));
        let first = seal(CODE, NOW_MS, "a", own);
        assert_eq!(check(true, first.clone(), false), "served");
        assert!(check(true, first.clone(), false).contains("served before"));
        assert_eq!(check(true, first, true), "served", "a broker may forward a request again");
        assert!(check(false, seal(CODE + 1, NOW_MS, "b", own), false).contains("another code"));
        for time_ms in [NOW_MS - WINDOW_MS - 1, NOW_MS + WINDOW_MS + 1, i64::MIN] {
            assert!(check(false, seal(CODE, time_ms, "c", own), false).contains("five minutes"));
        }
        assert!(check(true, seal(CODE, NOW_MS, "d", "10.0.0.2:10911"), false).contains("another server"));
        assert_eq!(check(false, seal(CODE, NOW_MS, "d", "10.0.0.2:10911"), false), "served");
        assert!(check(false, Some("x".to_owned()), false).contains("cannot be read"));
    }

    #[test]
    fn more_seals_than_are_remembered_make_old_ones_invalid() {
        let seals = Seals::default();
        let take = |time_ms, nonce: &str| {
            seals.take(NOW_MS, &Seal { code: 0, time_ms, nonce, receiver: "" }).is_ok()
        };
        for time_ms in 1..=5 {
            assert!(take(NOW_MS + time_ms, "a"));
        }
        assert!(!take(NOW_MS + 1, "a") && !take(NOW_MS + 1, "b"), "the oldest is forgotten");
        assert!(!take(NOW_MS + 2, "a") && take(NOW_MS + 2, "b"));
    }
}
