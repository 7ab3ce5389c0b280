//! Admission of requests: authentication and authorization with their audit lines, the same for every server.

use crate::audit::{self, Origin};
use crate::auth::{Attempt, Auth, Denial, Subject};
use crate::config::{Request, Switch};
use crate::error::{AuthError, Result};
use crate::resource::Permission;

impl Auth {
    /// Writes audit lines with `log`, also for served requests at level debug. Other servers write the lines about
    /// refusals to the log of the process.
    #[must_use]
    pub fn logging_to(mut self, log: impl Fn(i64, &str) + Send + Sync + 'static) -> Self {
        self.log = Some(Box::new(log));
        self
    }

    /// Whether requests need permissions, so that their needs must be determined.
    pub fn is_authorizing(&self) -> bool {
        self.settings().authorization != Switch::Off
    }

    /// Runs a verification under the limit of failures, and writes its audit line.
    ///
    /// # Errors
    /// The errors of `verify`. [`AuthError::Slowed`] for a request that is right, or was not verified, because its
    /// turn comes later.
    pub fn authenticate(
        &self,
        attempt: Attempt<'_>,
        verify: impl FnOnce() -> Result<Subject>,
    ) -> Result<Subject, Denial> {
        let result = self.in_turn(attempt, verify);
        if result.is_err() || self.logs_served_requests() {
            let shown = result.as_ref().map_err(|denied| &denied.error);
            self.log(attempt.now_ms, &audit::authentication(attempt.user, attempt.origin, shown));
        }
        result
    }

    /// Decides whether the request of a verified sender is served, and writes the audit lines. `needs` is called only
    /// if requests need permissions.
    ///
    /// # Errors
    /// The errors of `needs`, and the refusals of [`Auth::decide`].
    pub fn authorize<'n>(
        &self,
        now_ms: i64,
        (sender, request): (&Subject, Request<'_>),
        origin: Origin,
        needs: impl FnOnce() -> Result<Vec<Permission<'n>>>,
    ) -> Result<()> {
        if !self.is_authorizing() {
            return Ok(());
        }
        let needs =
            needs().inspect_err(|error| self.log_refusal(now_ms, (sender, request), origin, error))?;
        let ruling = self.decide(sender, request, origin.address, &needs);
        let audited = match ruling.is_allowed() {
            true if self.logs_served_requests() => &needs[..],
            true => &[],
            // The needs before the deciding need are allowed, and those behind it were not examined.
            false => needs.get(ruling.at..=ruling.at).unwrap_or_default(),
        };
        for need in audited {
            self.log(now_ms, &audit::authorization(sender, origin, request, need, &ruling));
        }
        // Without a provider, requests without needs are refused, too.
        if let Some(error) = ruling.refusal.as_ref().filter(|_| needs.is_empty()) {
            self.log_refusal(now_ms, (sender, request), origin, error);
        }
        ruling.refusal.map_or(Ok(()), Err)
    }

    /// Writes the audit line of a request that is refused without a decision about a resource.
    pub fn log_refusal(
        &self,
        now_ms: i64,
        (sender, request): (&Subject, Request<'_>),
        origin: Origin,
        reason: &AuthError,
    ) {
        self.log(now_ms, &audit::refusal(sender, origin, request, &reason.to_string()));
    }

    fn logs_served_requests(&self) -> bool {
        self.log.is_some() && tracing::enabled!(target: "auth_audit", tracing::Level::DEBUG)
    }

    fn log(&self, now_ms: i64, line: &str) {
        match &self.log {
            Some(log) => log(now_ms, line),
            None => tracing::info!(target: "auth_audit", "{line}"),
        }
    }
}
