use super::*;

#[test]
fn the_vectors_of_guava_hold() {
    let check = |group: &str, expected: [i32; 4]| {
        assert_eq!([4, 8, 16, 1000].map(|count| bucket(group, count)), expected, "{group}");
    };
    check("a", [0, 0, 0, 346]);
    check("order-1", [3, 3, 3, 489]);
    check("group-0", [1, 1, 1, 168]);
    check("fifo-group-A", [3, 4, 12, 411]);
    check("\u{8ba2}\u{5355}-1", [3, 4, 10, 308]);
    check("abcdefghijklmnopqrstuvwxyz", [1, 5, 5, 481]);
}
