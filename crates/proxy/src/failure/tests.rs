use super::*;

#[test]
fn refusals_of_the_broker_have_their_codes() {
    let check = |code: i32, expected: Code, text: &str| {
        let failure = Failure::from(Refusal::new(code, "why"));
        assert_eq!((failure.code, failure.message.as_str()), (expected, text), "{code}");
    };
    check(response::TOPIC_NOT_EXIST, Code::TopicNotFound, "CODE: 17  DESC: why");
    check(response::SYSTEM_BUSY, Code::TooManyRequests, "why");
    check(response::REQUEST_CODE_NOT_SUPPORTED, Code::NotImplemented, "why");
    check(response::SUBSCRIPTION_GROUP_NOT_EXIST, Code::ConsumerGroupNotFound, "why");
    check(response::FLUSH_DISK_TIMEOUT, Code::MasterPersistenceTimeout, "why");
    // A filter that cannot be read, as every code that `ResponseBuilder` does not know.
    check(response::SUBSCRIPTION_PARSE_FAILED, Code::InternalServerError, "why");
    check(response::NO_PERMISSION, Code::InternalServerError, "why");
    assert_eq!(Failure::unauthorized(Refusal::new(16, "why")).code, Code::Unauthorized);
    check(2017, Code::LiteTopicQuotaExceeded, "why");
}

#[test]
fn success_is_20000_with_its_name() {
    assert_eq!((Status::ok().code, Status::ok().message.as_str()), (20_000, "OK"));
    assert_eq!(Code::MessageNotFound.name(), "MESSAGE_NOT_FOUND");
}

#[test]
fn statuses_of_entries_have_one_code_or_several() {
    let (ok, bad) = (Status::ok(), Status::new(Code::InternalServerError, "x"));
    assert_eq!(common([&ok, &ok], ""), ok);
    assert_eq!(common([&bad, &bad], "").message, "INTERNAL_SERVER_ERROR");
    assert_eq!(common([&ok, &bad], "").code, Code::MultipleResults as i32);
    assert_eq!(common([], "none").message, "none");
}
