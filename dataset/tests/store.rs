//! The program as a user runs it, from and to a folder and an S3-compatible store (moto). Needs the `cellerator`
//! command, built before, and `moto_server` in the path or named by `MOTO_SERVER`: `make test-data`.
// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tokio::time::Instant;

fn cellerator() -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder");
    let built = ["target/release/cellerator", "target/debug/cellerator"].map(|place| project.join(place));
    let named = std::env::var_os("CELLERATOR").map(PathBuf::from);
    let found = named.or_else(|| built.into_iter().find(|place| place.exists()));
    found
        .expect("the cellerator command: `cargo build --package cellerator` in the project's folder makes it")
}

/// A store that ends with the test, and the requests that it had.
struct Moto {
    child: Child,
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Moto {
    fn start() -> Self {
        let program = std::env::var_os("MOTO_SERVER").unwrap_or_else(|| "moto_server".into());
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let mut child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto_server: `make test-data` installs it from PyPI");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (noted, mut lines) =
            (requests.clone(), BufReader::new(child.stderr.take().expect("its words")).lines());
        for line in lines.by_ref() {
            if line.expect("a line").contains("Running on") {
                break;
            }
        }
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                noted.lock().expect("nobody panics").push(line);
            }
        });
        Self { child, endpoint: format!("http://127.0.0.1:{port}"), requests }
    }

    /// Variables of the environment that lead to it.
    fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT", self.endpoint.clone()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    fn bucket(&self, name: &str) -> impl ObjectStore + use<> {
        let made = Command::new("curl")
            .args(["-sf", "-X", "PUT", &format!("{}/{name}", self.endpoint)])
            .status()
            .expect("curl");
        assert!(made.success(), "a bucket");
        AmazonS3Builder::new()
            .with_bucket_name(name)
            .with_endpoint(&self.endpoint)
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_access_key_id("test")
            .with_secret_access_key("test")
            .build()
            .expect("a store")
    }

    /// PUT requests by their keys.
    fn puts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in self.requests.lock().expect("nobody panics").iter() {
            if let Some((_, rest)) = line.split_once("\"PUT ") {
                let key = rest.split(' ').next().unwrap_or_default().to_owned();
                *counts.entry(key).or_default() += 1;
            }
        }
        counts
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dataset(moto: Option<&Moto>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator-dataset"));
    command.arg("--cellerator").arg(cellerator()).args(args);
    if let Some(moto) = moto {
        command.envs(moto.environment());
    }
    command.output().expect("the program starts")
}

fn said(out: &Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Five simulated captures, one of them rotated.
fn captures(folder: &Path) {
    let scenario = folder.join("s.toml");
    fs::create_dir_all(folder.join("in")).expect("a folder");
    let text = "name = \"t\"\nwan = { delay = \"5 ms\" }\nradio.down = { rate = \"8 Mbit/s\", loss = \"1 %\" }\n\
                workload = { size = \"200 KB\" }\n[[case]]\nname = \"plain\"\naccelerator = { enabled = false }\n";
    fs::write(&scenario, text).expect("written");
    for (seed, more) in [("1", vec![]), ("100", vec!["--rotate", "8000"])] {
        let seeds = if more.is_empty() { "4" } else { "1" };
        let out = Command::new(cellerator())
            .args(["sim", "run", "--seed", seed, "--seeds", seeds])
            .arg(&scenario)
            .arg("--captures")
            .arg(folder.join("in"))
            .args(more)
            .output()
            .expect("the program starts");
        said(&out);
    }
}

/// Files below `v1`, by their names; without records, which name places.
fn tables(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(current).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "parquet") {
                let name = path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).expect("readable"));
            }
        }
    }
    files
}

#[tokio::test]
async fn a_store_has_what_a_folder_has_and_each_key_is_put_once() {
    let root = tempfile::tempdir().expect("a folder");
    captures(root.path());
    let here = root.path().join("here");
    let made = Command::new(cellerator())
        .args(["analyze", "--env", "lte", "--parquet"])
        .arg(&here)
        .arg(root.path().join("in"))
        .output();
    assert!(said(&made.expect("it starts")).starts_with("5 series: 5 analyzed"));
    let expected = tables(&here);
    assert!(expected.len() >= 5 * 4, "{}", expected.len());

    // From a folder to a folder.
    let [from, to] = ["in", "there"].map(|name| format!("file://{}", root.path().join(name).display()));
    fs::create_dir(root.path().join("there")).expect("a folder");
    let first = said(&dataset(None, &["--env", "lte", "--to", &to, &from]));
    assert!(first.starts_with("5 of 5 series: 5 analyzed"), "{first}");
    assert!(tables(&root.path().join("there")) == expected, "the same files");

    // From a store to a store, in shards.
    let moto = Moto::start();
    let store = moto.bucket("captures");
    for entry in fs::read_dir(root.path().join("in")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let key = format!("day/in/{}", path.file_name().expect("a name").to_string_lossy());
        store.put(&key.as_str().into(), fs::read(&path).expect("readable").into()).await.expect("put");
    }
    let args = ["--env", "lte", "--to", "s3://captures/sets/one", "s3://captures/day/in"];
    for shard in ["1/2", "2/2"] {
        said(&dataset(Some(&moto), &[&args[..], &["--shard", shard]].concat()));
    }
    let objects: Vec<_> = store.list(Some(&"sets/one".into())).try_collect().await.expect("a list");
    let mut found = BTreeMap::new();
    for object in objects {
        let name = object.location.to_string();
        let name = name.strip_prefix("sets/one/").expect("below").to_owned();
        if name.ends_with(".parquet") {
            let bytes = store.get(&object.location).await.expect("there").bytes().await.expect("whole");
            found.insert(name, bytes.to_vec());
        }
    }
    assert!(found == expected, "the store has other files: {:?}", found.keys());
    let puts = moto.puts();
    let of_set: Vec<_> = puts.iter().filter(|(key, _)| key.contains("/sets/one/")).collect();
    assert_eq!(of_set.len(), expected.len() + 5, "each file and each record");
    assert!(of_set.iter().all(|(_, count)| **count == 1), "{of_set:?}");

    // Nothing is done again, but what has changed.
    let again = said(&dataset(Some(&moto), &args));
    assert!(again.starts_with("5 of 5 series: 0 analyzed (0 flows), 5 unchanged"), "{again}");
    let other = fs::read(root.path().join("in/plain-2.pcapng")).expect("readable");
    store.put(&"day/in/plain-1.pcapng".into(), other.into()).await.expect("put");
    let changed = said(&dataset(Some(&moto), &args));
    assert!(changed.starts_with("5 of 5 series: 1 analyzed (1 flows), 4 unchanged"), "{changed}");
}

/// Passes everything on to a store until `puts` objects were to be put there; then nobody answers any more.
fn answers_for(puts: u32, store: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let seen = Arc::new(AtomicU32::new(0));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            if seen.load(Ordering::SeqCst) >= puts {
                return;
            }
            let (mut client, mut server) =
                (client.expect("a connection"), TcpStream::connect(store).expect("a store"));
            let (mut back_from, mut back_to) =
                (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
            std::thread::spawn(move || {
                // Either end may close it.
                let _ = std::io::copy(&mut back_from, &mut back_to);
                let _ = back_to.shutdown(Shutdown::Both);
            });
            let seen = seen.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 1 << 16];
                while let Ok(count @ 1..) = client.read(&mut bytes) {
                    seen.fetch_add(u32::from(bytes.starts_with(b"PUT ")), Ordering::SeqCst);
                    if seen.load(Ordering::SeqCst) > puts || server.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

#[tokio::test]
async fn a_store_that_goes_away_is_said_once_and_the_next_run_goes_on() {
    let root = tempfile::tempdir().expect("a folder");
    captures(root.path());
    let moto = Moto::start();
    let store = moto.bucket("captures");
    for entry in fs::read_dir(root.path().join("in")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let key = format!("in/{}", path.file_name().expect("a name").to_string_lossy());
        store.put(&key.as_str().into(), fs::read(&path).expect("readable").into()).await.expect("put");
    }
    let args = ["--threads", "1", "--to", "s3://captures/set", "s3://captures/in"];
    let straight = moto.endpoint.trim_start_matches("http://").parse().expect("an address");
    // Each series has five files or more and its record: the third one is in the making.
    let endpoint = format!("http://{}", answers_for(14, straight));
    let began = Instant::now();
    let out = Command::new(env!("CARGO_BIN_EXE_cellerator-dataset"))
        .arg("--cellerator")
        .arg(cellerator())
        .args(args)
        .envs(moto.environment())
        .env("AWS_ENDPOINT", &endpoint)
        .output()
        .expect("the program starts");
    let wrong = String::from_utf8_lossy(&out.stderr).into_owned();
    let lines: Vec<&str> = wrong.lines().filter(|line| line.starts_with("cellerator-dataset: ")).collect();
    assert!(!out.status.success() && lines.len() == 1, "{wrong}");
    assert!(lines[0].starts_with("cellerator-dataset: s3://captures/set: "), "{wrong}");
    assert!(lines[0].ends_with("; 2 of 5 series are done, and are not done again"), "{wrong}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let records: Vec<_> = store.list(Some(&"set/v1/series".into())).try_collect().await.expect("a list");
    assert_eq!(records.len(), 2, "what is half there has no record");

    let again = said(&dataset(Some(&moto), &args));
    assert!(again.starts_with("5 of 5 series: 3 analyzed (3 flows), 2 unchanged, 0 failed"), "{again}");
    let fresh = [&args[..3], &["s3://captures/fresh", args[4]]].concat();
    said(&dataset(Some(&moto), &fresh));
    let mut sets = Vec::new();
    for set in ["set", "fresh"] {
        let objects: Vec<_> = store.list(Some(&set.into())).try_collect().await.expect("a list");
        let mut found = BTreeMap::new();
        for object in objects {
            let name = object.location.to_string().split_once('/').expect("below").1.to_owned();
            let bytes = store.get(&object.location).await.expect("there").bytes().await.expect("whole");
            found.insert(name, bytes);
        }
        sets.push(found);
    }
    assert!(sets[0] == sets[1] && !sets[0].is_empty(), "as if it had stayed");
}

#[test]
fn a_store_that_lets_nobody_in_is_said_in_a_line() {
    let moto = Moto::start();
    let root = tempfile::tempdir().expect("a folder");
    let to = format!("file://{}", root.path().display());
    let out = dataset(Some(&moto), &["--to", &to, "s3://no-such-bucket/in"]);
    let said = String::from_utf8_lossy(&out.stderr);
    let expected = "cellerator-dataset: s3://no-such-bucket/in: The specified bucket does not exist";
    assert_eq!(said.trim_end(), expected);
    assert!(!out.status.success() && fs::read_dir(root.path()).expect("a folder").next().is_none());
}

#[test]
fn what_is_wrong_is_said() {
    let root = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", root.path().display());
    for (input, words) in
        [("ftp://x/y", "unknown"), ("here", "no URL"), (url.as_str(), "no captures below this")]
    {
        let out = dataset(None, &["--to", &url, input]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(words), "{said}");
    }
}
