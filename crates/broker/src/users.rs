//! Requests about users and ACLs (3001 to 3010). Vostok has no authentication, and answers them like a RocketMQ broker whose
//! authentication is off: with code 1 (`AdminBrokerProcessor.createUser` to `listAcl`).

use wire::codes::{request, response};
use wire::frame::Command;

use crate::Refusal;

/// Whether a request is about users or ACLs.
pub(crate) fn is_about_users(code: i32) -> bool {
    (request::AUTH_CREATE_USER..=request::AUTH_LIST_ACL).contains(&code)
}

/// The refusal of a request about users or ACLs. As in RocketMQ, a field that is missing in the request is reported first.
pub(crate) fn refuse(command: &Command<'_>) -> Refusal {
    let lacks = |name| command.fields.text(name).is_none_or(|text| text.trim().is_empty());
    match command.code {
        request::AUTH_CREATE_USER | request::AUTH_UPDATE_USER | request::AUTH_GET_USER
            if lacks("username") =>
        {
            Refusal::new(response::INVALID_PARAMETER, "The username is blank")
        }
        request::AUTH_DELETE_USER if lacks("username") => {
            Refusal::new(response::NO_PERMISSION, "username can not be blank")
        }
        request::AUTH_DELETE_ACL | request::AUTH_GET_ACL if lacks("subject") => {
            Refusal::new(response::NO_PERMISSION, "The subject is null.")
        }
        _ => Refusal::error(
            "An system error occurred, please try again later. Cause: authentication is off, no users and ACLs are kept",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn requests_about_users_are_refused_as_where_authentication_is_off() {
        let fixture = Fixture::new();
        let user = [("username", "u"), ("subject", "User:u")];
        for code in request::AUTH_CREATE_USER..=request::AUTH_LIST_ACL {
            let (answered, remark, _) = fixture.ask(code, &user, br#"{"username":"u","password":"p"}"#);
            assert_eq!(answered, response::SYSTEM_ERROR, "{code}");
            assert!(
                remark.starts_with("An system error occurred, please try again later."),
                "{code} {remark}"
            );
        }
        for (code, expected) in [
            (request::AUTH_CREATE_USER, (29, "The username is blank")),
            (request::AUTH_UPDATE_USER, (29, "The username is blank")),
            (request::AUTH_DELETE_USER, (16, "username can not be blank")),
            (request::AUTH_GET_USER, (29, "The username is blank")),
            (request::AUTH_DELETE_ACL, (16, "The subject is null.")),
            (request::AUTH_GET_ACL, (16, "The subject is null.")),
        ] {
            let (answered, remark, _) = fixture.ask(code, &[("username", " ")], b"");
            assert_eq!((answered, remark.as_str()), expected, "{code}");
        }
    }
}
