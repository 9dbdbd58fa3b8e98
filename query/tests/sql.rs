//! The program as a user runs it. Needs the `cellerator` command, built before: `target/release`,
//! `target/debug`, or the one that the environment's `CELLERATOR` names.
// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder")
}

fn cellerator() -> PathBuf {
    let built = ["target/release/cellerator", "target/debug/cellerator"].map(|place| project().join(place));
    let named = std::env::var_os("CELLERATOR").map(PathBuf::from);
    let found = named.or_else(|| built.into_iter().find(|place| place.exists()));
    found
        .expect("the cellerator command: `cargo build --package cellerator` in the project's folder makes it")
}

fn capture(name: &str) -> PathBuf {
    project().join("crates/cli/tests/captures").join(format!("{name}.server.pcapng.gz"))
}

fn query(args: &[&str], sql: &str, sources: &[PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator-query"));
    command.args(args).arg("--cellerator").arg(cellerator()).arg(sql).args(sources);
    command.output().expect("the program starts")
}

fn rows(sql: &str, sources: &[PathBuf]) -> String {
    let out = query(&["--format", "csv"], sql, sources);
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A dataset of two captures, in a folder that is removed at the end.
fn dataset(env: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Command::new(cellerator())
        .args(["analyze", "--csv", "/dev/null", "--env", env, "--parquet"])
        .arg(folder.path())
        .args([capture("loss"), capture("short-flows")])
        .output()
        .expect("the program starts");
    assert!(made.status.success(), "{}", text(&made.stderr));
    folder
}

#[test]
fn captures_are_tables() {
    let causes = "SELECT event, cause, count(*) AS n FROM events GROUP BY event, cause ORDER BY n DESC";
    // The lab's link dropped six packets, and the kernel repaired all without a time-out (loss.truth.json).
    assert_eq!(rows(causes, &[capture("loss")]), "event,cause,n\nretransmission,fast,6\n");
    // Joined: events of a flow are the ones it counts.
    let joined = "SELECT count(*) AS flows, sum(f.b2a_retransmissions_data_packets) AS counted, sum(e.n) AS listed \
        FROM flows f JOIN (SELECT flow_id, count(*) AS n FROM events WHERE event = 'retransmission' AND \
        direction = 1 AND len > 0 GROUP BY flow_id) e USING (flow_id)";
    let found = rows(joined, &[capture("short-flows")]);
    let figures: Vec<&str> = found.lines().nth(1).expect("a row").split(',').collect();
    assert!(figures[0].parse::<u64>().expect("a number") > 5, "{found}");
    assert_eq!(figures[1], figures[2], "{found}");
}

#[test]
fn budgets_and_the_ends_of_a_flow_are_columns() {
    let parts = [
        "handshake",
        "slow_start",
        "receive_window",
        "application",
        "loss_recovery",
        "outage",
        "path_rate",
        "policer",
        "closing",
        "unclear",
    ];
    let sum = parts.map(|part| format!("budget_{part}_ns")).join(" + ");
    // Parts sum to the whole in every flow, from either source.
    let wrong = format!(
        "SELECT count(*) AS flows, sum(CASE WHEN {sum} <> budget_total_ns THEN 1 ELSE 0 END) AS wrong FROM flows"
    );
    assert_eq!(rows(&wrong, &[capture("short-flows")]), "flows,wrong\n16,0\n");
    let folder = dataset("lab");
    assert_eq!(rows(&wrong, &[folder.path().to_owned()]), "flows,wrong\n17,0\n");
    // The lab's link was dead for 900 ms (scenarios/captures.toml): most of the time went there.
    let largest = "SELECT CASE WHEN (budget_outage_ns + budget_loss_recovery_ns) * 2 > budget_total_ns THEN 'link' \
        ELSE 'other' END AS reason, budget_slow_because IS NOT NULL AS told FROM flows";
    assert_eq!(rows(largest, &[capture("outage")]), "reason,told\nlink,true\n");
    // File, addresses and ports are columns of their own.
    let ends = "SELECT file LIKE '%loss.server.pcapng.gz' AS file, second_port = 80 AS web, \
        first = first_address || ':' || first_port AS same FROM flows";
    assert_eq!(rows(ends, &[capture("loss")]), "file,web,same\ntrue,true,true\n");
    // Rows of events and samples have those of their flow.
    for (table, wrong) in [("events", "6,0"), ("samples", "true,0"), ("intervals", "true,0")] {
        let count = if table == "events" { "count(*)" } else { "count(*) > 0" };
        let of_flow = format!(
            "SELECT {count} AS n, sum(CASE WHEN r.file = f.file AND r.first_address = f.first_address \
            AND r.first_port = f.first_port AND r.second_address = f.second_address \
            AND r.second_port = f.second_port THEN 0 ELSE 1 END) AS wrong FROM {table} r JOIN flows f USING (flow_id)"
        );
        assert_eq!(rows(&of_flow, &[capture("loss")]), format!("n,wrong\n{wrong}\n"), "{table}");
    }
    // Of a connection captured at both ends both flows'.
    let of_both = "SELECT count(*) AS n, sum(CASE WHEN p.file = c.file AND p.first_address = c.first_address \
        AND p.first_port = c.first_port AND p.second_address = c.second_address AND p.second_port = c.second_port \
        AND p.server_flow_file = s.file AND p.server_flow_first_address = s.first_address \
        AND p.server_flow_first_port = s.first_port AND p.server_flow_second_address = s.second_address \
        AND p.server_flow_second_port = s.second_port AND p.file LIKE '%loss.client.pcapng.gz' \
        AND s.file LIKE '%loss.server.pcapng.gz' THEN 0 ELSE 1 END) AS wrong FROM pairs p \
        JOIN flows c ON p.client_flow_id = c.flow_id JOIN flows s ON p.server_flow_id = s.flow_id";
    let client = capture("loss").with_file_name("loss.client.pcapng.gz");
    assert_eq!(rows(of_both, &[capture("loss"), client]), "n,wrong\n1,0\n");
    let sorted = "SELECT sum(sorted) AS sorted, sum(bad_blocks) AS bad FROM captures";
    assert_eq!(rows(sorted, &[capture("loss")]), "sorted,bad\n0,0\n");
}

#[test]
fn datasets_parts_and_captures_are_one() {
    let folder = dataset("lab");
    let by_env = "SELECT env, count(*) AS flows FROM flows GROUP BY env ORDER BY env";
    let stored = [folder.path().to_owned()];
    assert_eq!(rows(by_env, &stored), "env,flows\nlab,17\n");
    assert_eq!(rows(by_env, &[folder.path().join("v1")]), "env,flows\nlab,17\n");
    let both = [folder.path().to_owned(), capture("clean")];
    assert_eq!(rows(by_env, &both), "env,flows\nlab,17\nnone,1\n");
    let other = dataset("home");
    assert_eq!(
        rows(by_env, &[folder.path().to_owned(), other.path().to_owned()]),
        "env,flows\nhome,17\nlab,17\n"
    );
    // A file alone has its own name.
    let copy = folder.path().join("copy.parquet");
    let parts = folder.path().join("v1/table=flows/env=lab");
    let date = std::fs::read_dir(parts).expect("dates").next().expect("a date").expect("readable").path();
    let part = std::fs::read_dir(date).expect("parts").next().expect("a part").expect("readable").path();
    std::fs::copy(part, &copy).expect("copied");
    assert_eq!(rows("SELECT count(*) AS n FROM copy", &[copy]), "n\n17\n");
}

#[test]
fn results_in_three_forms() {
    let source = [capture("clean")];
    assert_eq!(
        rows("SELECT id, first FROM flows WHERE false", &source),
        "id,first\n",
        "columns without rows"
    );
    let sql = "SELECT id, b2a_unique_bytes AS bytes FROM flows";
    let json = query(&["--format", "json"], sql, &source);
    assert_eq!(text(&json.stdout), "{\"id\":0,\"bytes\":400258}\n");
    let table = text(&query(&[], sql, &source).stdout);
    assert!(table.contains("| id | bytes  |") && table.contains("| 0  | 400258 |"), "{table}");
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let folder = dataset("lab");
    let stored = folder.path().to_owned();
    let text_file = folder.path().join("notes.txt");
    std::fs::write(&text_file, "no capture").expect("written");
    for (sql, source, wanted) in [
        ("SELECT 1", PathBuf::from("/nowhere"), "/nowhere: no such file"),
        ("SELEC", stored.clone(), "SELEC"),
        ("SELECT nothing FROM flows", stored.clone(), "No field named nothing. `DESCRIBE TABLE`"),
        ("SELECT * FROM nothing", stored, "nothing' not found"),
    ] {
        let out = query(&[], sql, &[source]);
        let said = text(&out.stderr);
        assert!(!out.status.success() && out.stdout.is_empty(), "{sql}");
        assert!(said.contains(wanted) && said.lines().count() == 1, "{said}");
    }
    let out = query(&[], "SELECT 1", &[text_file]);
    assert!(!out.status.success() && text(&out.stderr).contains("not a capture"), "{}", text(&out.stderr));
}

#[test]
fn nothing_is_left_behind() {
    let temporary = tempfile::tempdir().expect("a folder");
    let start = |program: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator-query"));
        command.env("TMPDIR", temporary.path()).arg("--cellerator").arg(program);
        command.args(["SELECT count(*) FROM flows"]).arg(capture("clean"));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command.spawn().expect("the program starts")
    };
    let left = || std::fs::read_dir(temporary.path()).expect("readable").count();
    assert!(start(&cellerator()).wait().expect("it ends").success());
    assert_eq!(left(), 0);
    // Ended while it waits for an analysis that takes long.
    let slow = temporary.path().join("slow");
    std::fs::write(&slow, "#!/bin/sh\nexec sleep 60\n").expect("written");
    let mut mode = std::fs::metadata(&slow).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&slow, mode).expect("a program");
    for signal in ["INT", "TERM"] {
        let mut running = start(&slow);
        while left() < 2 {
            assert!(running.try_wait().expect("asked").is_none(), "it waits");
            std::thread::yield_now();
        }
        let sent = Command::new("kill").args(["-s", signal, &running.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        assert!(!running.wait().expect("it ends").success(), "{signal}");
        assert_eq!(left(), 1, "only the slow program, after {signal}");
    }
}
