//! A client whose daemon does not behave.

use super::*;

#[test]
fn a_daemon_that_does_not_answer_is_told_apart_from_one_that_is_gone() {
    let (ours, theirs) = unix::pair().unwrap();
    unix::set_receive_timeout(&ours, Duration::from_millis(20)).unwrap();
    let mut client = Client::over(ours, &ConnectOptions::default());
    let silent = client.list_devices().unwrap_err();
    assert_eq!(silent.errno(), 110, "ETIMEDOUT");
    assert!(silent.to_string().contains("did not answer within 60 s"), "{silent}");
    // A later answer belongs to no request any more.
    assert!(!client.is_connected());

    let (ours, other) = unix::pair().unwrap();
    drop((theirs, other));
    let gone = Client::over(ours, &ConnectOptions::default()).list_devices().unwrap_err();
    assert_eq!(gone.to_string(), "the weft daemon is gone");
}
