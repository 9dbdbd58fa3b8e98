//! The harness itself, over a plain router.

use engine::PassThrough;

use super::*;

fn run(text: &str) -> Result<(), String> {
    let script = Script::parse("test.pkt", text).map_err(|e| e.to_string())?;
    script.run(PassThrough, |_, _| None).map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn a_router_passes_everything_as_it_is() {
    run("0.0 establish\n\
         0.1 server> P. 1:1001(1000) ack 1 win 500 <TS val 5001 ecr 1001>\n\
         0.1 >client . 1:1001(1000) ack 1 win 500 <TS val 5001 ecr *>\n\
         0.2 client> . 1 ack 1001 win 490 <TS val 1100 ecr 5001,sack 2001:3001>\n\
         0.2 >server . 1 ack 1001 win >=490 <TS val 1100 ecr 5001,sack 2001:3001>\n\
         0.3 client> F. 1 ack 1001\n\
         0.3 >server none R *\n\
         0.3 >server .. F. 1\n\
         0.4 nothing")
    .unwrap();
}

#[test]
fn a_failure_names_file_line_and_what_came() {
    let error =
        run("0.0 establish\n\n0.1 server> . 1:11(10) ack 1\n0.1 >client . 1:11(10) ack 2").unwrap_err();
    assert!(error.starts_with("test.pkt:4: 0.1 >client . 1:11(10) ack 2\n    ack is 1\n"), "{error}");
    assert!(error.contains(">client . 1:11(10) ack 1 win 65535 <>"), "{error}");
    let error = run("0.0 client> R 1").unwrap_err();
    assert!(error.contains("test.pkt:1: end of the script") && error.contains(">server R 1"), "{error}");
    assert!(run("0.0 >client . 1").unwrap_err().contains("no packet came"));
}

#[test]
fn a_line_that_cannot_be_read_says_why() {
    for (text, why) in [
        ("0.0 klient> . 1", "`klient>` is none of"),
        ("0.0 client> Q 1", "`Q` are no flags"),
        ("0.0 client> . 1:11(5)", "the end is not start plus length"),
        ("0.0 client> . 1 <mss x>", "`x` is not a number"),
        ("x client> . 1", "`x` is not a number"),
        ("0.12345\u{e9} client> . 1", "is not a number"),
        ("20000000000000 client> . 1", "is not a number that fits here"),
        ("0.0 client> . 1:4000000001(4000000000)", "is not a number that fits here"),
    ] {
        let error = run(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert!(run("0.2 nothing\n0.1 nothing").unwrap_err().contains("lies before"));
}
