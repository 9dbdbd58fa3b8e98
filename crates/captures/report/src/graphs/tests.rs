use super::*;

#[test]
fn names_are_those_of_tcptrace() {
    assert_eq!(direction_name(0, 0), "a2b");
    assert_eq!(direction_name(0, 1), "b2a");
    assert_eq!(direction_name(12, 0), "y2z");
    assert_eq!(direction_name(13, 0), "aa2ab");
}

#[test]
fn letters_choose_graphs() {
    let wanted = Wanted::parse("SR").unwrap();
    assert!(wanted.sequence && wanted.rtt && !wanted.throughput);
    assert_eq!(Wanted::parse("G").unwrap(), Wanted::parse("TRSNF").unwrap());
    assert!(Wanted::parse("X").unwrap_err().contains("'X'"));
}
