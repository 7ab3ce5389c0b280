use super::*;

#[test]
fn a_handle_is_read_and_written() {
    let text = "100 1700000000000 60000 3 2 broker-a 2 105 4711";
    let receipt = Receipt::parse(text).unwrap();
    assert_eq!((receipt.queue_id, receipt.offset, receipt.log_offset), (2, 105, 4711));
    assert_eq!(receipt.to_string(), text);
    assert_eq!(receipt.topic("T", "g"), "%RETRY%g+T");
    let without = Receipt::parse("100 1700000000000 60000 3 1 broker-a 2 105").unwrap();
    assert_eq!((without.log_offset, without.topic("T", "g").as_str()), (-1, "%RETRY%g_T"));
}

#[test]
fn what_is_no_handle_is_refused_as_such() {
    for text in
        ["", "x", "1 2 3 4 0 b", "1 2 3 4 0 b 5", "1 2 3 4 0 b q 6", "1 2 3 4 7 b 5 6", "1 2 3 4 0 b 5 6 x"]
    {
        assert_eq!(Receipt::parse(text).unwrap_err().code, Code::InvalidReceiptHandle, "{text}");
    }
}

#[test]
fn a_handle_expires_with_its_invisible_time() {
    let receipt = Receipt::parse("1 1000 500 3 0 b 2 1 7").unwrap();
    assert_eq!(receipt.check(Some("b"), 1499), Ok(()));
    let check = |broker: &str, now_ms| receipt.check(Some(broker), now_ms).unwrap_err().message;
    assert_eq!(check("b", 1500), "receipt handle is expired");
    assert_eq!(check("c", 1499), "cannot find broker b");
    assert_eq!(receipt.check(None, 1499), Ok(()));
}
