//! `cellerator probe`.

mod all;
mod hops;
mod record;

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::probe::{ARRIVALS_MAX, CookieJar, Direction, Key, Limits, ServerConfig};
use anyhow::{Context, Error, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use io::{Clock, Signals};
use measure::{
    Address, Document, Environment, Figures, LocalPeer, Maker, MeasureError, MiddleboxPart, MiddleboxPlan,
    Moment, RttPlan, ServeOptions, Session, SessionOptions, SweepPlan, TcpPlan, TimeoutPlan, Watcher,
};
use scenario::Quantity;
use serde::Serialize;
use units::{Bytes, Duration, Rate};

use crate::output::{self, Words};
use crate::progress::Line;
use crate::{interruption, outcome, writable};

/// UDP port of a server.
const PORT: u16 = 7311;

/// Arguments of `cellerator probe`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answer measurements of others, until interrupted
    Server(ServerArgs),
    /// Make all measurements, one after the other: one document, one page
    All(all::Args),
    /// Measure loss, delay and goodput of UDP at several rates, and the path's capacity
    Sweep(SweepArgs),
    /// Measure round trips, idle and while the path is loaded
    Rtt(RttArgs),
    /// Measure TCP: throughput, handshake, what limited each transfer
    Tcp(TcpArgs),
    /// Find what stands in between: split connections, caches, options that are removed
    Middlebox(MiddleboxArgs),
    /// Measure how long the path keeps idle UDP and TCP flows
    Timeout(TimeoutArgs),
    /// Measure round trips to each router on the way, idle and under load: where packets wait
    Hops(hops::Args),
    /// Record the path as a link trace for `lab` and `sim`
    Record(record::Args),
    /// Put results of several environments side by side
    Compare(CompareArgs),
}

/// `cellerator probe server`.
#[derive(clap::Args)]
struct ServerArgs {
    /// Address and UDP port to listen at; [::] takes IPv4 and IPv6
    #[arg(long, default_value = "[::]:7311", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// TCP ports to listen at as well, for `probe middlebox`; one more is chosen at random
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    ports: Vec<u16>,
    /// File with a key that clients must have too; without it, anyone may measure
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Largest rate of a run, IP packets
    #[arg(long, default_value = "1 Gbit/s", value_name = "RATE")]
    rate_max: Quantity<Rate>,
    /// Longest run
    #[arg(long, default_value = "60 s", value_name = "TIME")]
    time_max: Quantity<Duration>,
    /// Data of one client (IPv4 address or IPv6 /64) in an hour
    #[arg(long, default_value = "8 GB", value_name = "SIZE")]
    volume_max: Quantity<Bytes>,
    /// Sessions at once
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    sessions: u16,
    /// Sessions at once of one client
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    sessions_per_client: u16,
    /// Sessions that are measured at once; the others wait for their turn
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// For tests: let the server's clock gain so many parts per million, to see what clients make of it
    #[arg(
        long,
        default_value_t = 0,
        value_name = "PPM",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-1_000..=1_000)
    )]
    clock_drift: i32,
}

/// Arguments that all measurements have in common.
#[derive(clap::Args)]
struct ClientArgs {
    /// Name or address of a host on which `cellerator probe server` runs
    host: String,
    /// Its UDP port
    #[arg(long, default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Use IPv4
    #[arg(short = '4', conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6
    #[arg(short = '6')]
    ipv6: bool,
    /// File with the server's key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Silence of the server after which it is taken for gone
    #[arg(long, default_value = "15 s", value_name = "TIME")]
    patience: Quantity<Duration>,
    /// Write the results as JSON (schemas/probe-*.schema.json); - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// From the server.
    Down,
    /// To the server.
    Up,
}

/// Load on a path.
#[derive(clap::Args)]
struct LoadArgs {
    /// Ways to measure
    #[arg(long, value_delimiter = ',', default_value = "down,up", value_name = "WAY")]
    ways: Vec<Way>,
    /// Length of the IP packets of a load, bytes
    #[arg(long, default_value_t = 1_400, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(100..=9_000))]
    packet: u16,
    /// Length of each search for the capacity
    #[arg(long, default_value = "10 s", value_name = "TIME")]
    search_time: Quantity<Duration>,
    /// A search goes no higher than this
    #[arg(long, default_value = "1 Gbit/s", value_name = "RATE")]
    rate_max: Quantity<Rate>,
}

impl LoadArgs {
    fn rtt_plan(&self, every: Duration, length: Duration, load_rate: Option<Rate>) -> RttPlan {
        RttPlan {
            every,
            length,
            loads: directions(&self.ways),
            load_rate,
            search_length: self.search_time.0,
            rate_max: self.rate_max.0,
            packet: self.packet,
        }
    }
}

/// A second server, on the local network.
#[derive(clap::Args)]
struct LocalArgs {
    /// A host on the local network on which `cellerator probe server` runs too, as HOST or HOST:PORT: it tells what
    /// the Wi-Fi or cable adds
    #[arg(long, value_name = "HOST")]
    local_peer: Option<String>,
}

impl LocalArgs {
    /// Opens a session with it; none where there is none.
    fn open<'a>(&self, client: &ClientArgs, signals: &'a Signals) -> Result<Option<LocalPeer<'a>>> {
        let Some(peer) = &self.local_peer else { return Ok(None) };
        let options = SessionOptions { address: Address::Any, ..client.options()? };
        let (host, port) = host_and_port(peer);
        let options = SessionOptions { host: host.to_owned(), port, ..options };
        LocalPeer::open(&options, signals).map(Some).context("the local peer")
    }
}

/// Reads HOST or HOST:PORT; an IPv6 address with a port stands in brackets.
fn host_and_port(peer: &str) -> (&str, u16) {
    let named = peer.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match named {
        Some((host, port)) if !host.contains(':') => (host, port),
        Some((host, port)) if host.starts_with('[') && host.ends_with(']') => {
            (host.trim_matches(['[', ']']), port)
        }
        _ => (peer.trim_matches(['[', ']']), PORT),
    }
}

/// `cellerator probe sweep`.
#[derive(clap::Args)]
struct SweepArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    load_args: LoadArgs,
    /// Rates of IP packets, such as '1 Mbit/s,2 Mbit/s'; without it the capacity is searched for and shares of
    /// it are measured
    #[arg(long, value_delimiter = ',', value_name = "RATE")]
    rates: Vec<Quantity<Rate>>,
    /// Length of each run
    #[arg(long, default_value = "5 s", value_name = "TIME")]
    time: Quantity<Duration>,
}

/// `cellerator probe rtt`.
#[derive(clap::Args)]
struct RttArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    load_args: LoadArgs,
    /// Between two packets
    #[arg(long, default_value = "20 ms", value_name = "TIME")]
    every: Quantity<Duration>,
    /// Length of each phase: idle, and loaded each way
    #[arg(long, default_value = "10 s", value_name = "TIME")]
    time: Quantity<Duration>,
    /// Rate of the load; without it the capacity is searched for, and the load is 15 % above it
    #[arg(long, value_name = "RATE")]
    load: Option<Quantity<Rate>>,
    /// Do not load the path
    #[arg(long, conflicts_with = "load")]
    idle: bool,
    #[command(flatten)]
    local: LocalArgs,
}

/// `cellerator probe tcp`.
#[derive(clap::Args)]
struct TcpArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Ways to measure
    #[arg(long, value_delimiter = ',', default_value = "down,up", value_name = "WAY")]
    ways: Vec<Way>,
    /// Length of each transfer
    #[arg(long, default_value = "10 s", value_name = "TIME")]
    time: Quantity<Duration>,
    /// Transfers each way; [MP] makes six or more
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Congestion controls of the sender, each in its turn [default: the systems' own]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    cc: Vec<String>,
    /// Largest windows of the receiver, each in its turn [default: the systems' own]
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    window: Vec<Quantity<Bytes>>,
}

/// `cellerator probe middlebox`.
#[derive(clap::Args)]
struct MiddleboxArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// TCP ports to test where the server listens (its --ports), beside its main one; `random` is the one
    /// that it has chosen
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "20,21,22,80,110,443,5201,random",
        value_name = "PORT"
    )]
    ports: Vec<TestedPort>,
    /// By how much acknowledgements are delayed; more than the path's round trip
    #[arg(long, default_value = "5 s", value_name = "TIME")]
    delay: Quantity<Duration>,
    /// Tests to make; `split` and `options` need root
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "split,options,requests,refused",
        value_name = "TEST"
    )]
    tests: Vec<MiddleboxTest>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MiddleboxTest {
    /// Acknowledgements of data in this machine's stead
    Split,
    /// Treatment of TCP options, flags and sequence numbers
    Options,
    /// Answers of a cache to requests, and what the system's own TCP shows of the others
    Requests,
    /// Hosts that answer at a port where nobody listens
    Refused,
}

/// A port to test; none for the server's own choice.
#[derive(Clone, Copy)]
struct TestedPort(Option<u16>);

impl std::str::FromStr for TestedPort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "random" {
            return Ok(Self(None));
        }
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        port.map(|port| Self(Some(port))).context("a port is 1 to 65535, or `random`")
    }
}

/// `cellerator probe timeout`.
#[derive(clap::Args)]
struct TimeoutArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Silences to try, all at once
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "30s,60s,90s,120s,150s,180s,240s,300s,600s,900s,1200s,1800s,2700s,3600s,5400s,7200s",
        value_name = "TIME"
    )]
    silences: Vec<Quantity<Duration>>,
    /// Protocols to try
    #[arg(long, value_delimiter = ',', default_value = "udp,tcp", value_name = "PROTOCOL")]
    protocols: Vec<Protocol>,
    /// Go on with a result that is not the whole (its --json): only what it has not learned is tried
    #[arg(long, value_name = "FILE", conflicts_with_all = ["silences", "protocols"])]
    resume: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// `cellerator probe compare`.
#[derive(clap::Args)]
struct CompareArgs {
    /// Results of `probe sweep`, `rtt` or `tcp` (--json); a name in front, as in wired=a.json, is shown instead
    /// of the file's
    #[arg(required = true, value_name = "[NAME=]FILE")]
    results: Vec<String>,
    /// Write the comparison as JSON (schemas/probe-compare.schema.json); - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `cellerator probe`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Server(args) => server(&args),
        Command::All(args) => all::main(&args),
        Command::Sweep(args) => sweep(&args),
        Command::Rtt(args) => rtt(&args),
        Command::Tcp(args) => tcp(&args),
        Command::Middlebox(args) => middlebox(&args),
        Command::Timeout(args) => timeout(&args),
        Command::Hops(args) => hops::main(&args),
        Command::Record(args) => record::main(&args),
        Command::Compare(args) => compare(&args),
    }
}

fn server(args: &ServerArgs) -> Result<ExitCode> {
    if args.rate_max.0.is_zero() || args.time_max.0.is_zero() {
        bail!("--rate-max and --time-max must be more than zero");
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).context("cannot get random bytes")?;
    let secret = CookieJar::new(&secret).context("no random bytes")?;
    let config = ServerConfig {
        key: args.key_file.as_deref().map(read_key).transpose()?,
        secret,
        limits: Limits {
            rate_max: args.rate_max.0,
            time_max: args.time_max.0,
            volume_max: args.volume_max.0,
        },
        sessions_max: args.sessions.into(),
        sessions_per_client_max: args.sessions_per_client.into(),
        measured_max: args.parallel.into(),
        arrivals_max: ARRIVALS_MAX,
    };
    if config.key.is_none() {
        eprintln!("  no --key-file: anyone who reaches the port may measure, up to the limits");
    }
    let signals = Signals::terminating()?;
    let options =
        ServeOptions { listen: args.listen, ports: args.ports.clone(), config, drift_ppm: args.clock_drift };
    let counters = measure::serve(options, &signals, &mut |line| eprintln!("  {line}")).map_err(|error| {
        // `EACCES`, `EADDRINUSE`, `EADDRNOTAVAIL`.
        const PERMISSION: i32 = 13;
        const IN_USE: i32 = 98;
        const NOT_HERE: i32 = 99;
        match error.raw_os_error() {
            Some(PERMISSION) => anyhow!("{error}: a port below 1024 needs root, or CAP_NET_BIND_SERVICE"),
            Some(IN_USE) => anyhow!("{error}: another program has the port, choose another with --listen"),
            Some(NOT_HERE) => anyhow!("{error}: --listen with an address of this machine"),
            _ => error.into(),
        }
    })?;
    eprintln!(
        "  {} sessions, {} runs; refused: {} for want of room, {} with a wrong key, {} of another version",
        counters.sessions, counters.runs, counters.overloaded, counters.wrong_key, counters.other_version
    );
    Ok(ExitCode::SUCCESS)
}

fn sweep(args: &SweepArgs) -> Result<ExitCode> {
    positive(&[("--time", args.time.0), ("--search-time", args.load_args.search_time.0)])?;
    if args.rates.iter().any(|rate| rate.0.is_zero()) {
        bail!("--rates must be more than zero");
    }
    let plan = SweepPlan {
        directions: directions(&args.load_args.ways),
        rates: args.rates.iter().map(|rate| rate.0).collect(),
        length: args.time.0,
        search_length: args.load_args.search_time.0,
        rate_max: args.load_args.rate_max.0,
        packet: args.load_args.packet,
    };
    args.client.measure(
        |session, made_by, display| measure::sweep(session, &plan, made_by, display),
        |document| !document.directions.iter().all(|way| way.steps.is_empty() && way.search.is_none()),
    )
}

fn rtt(args: &RttArgs) -> Result<ExitCode> {
    positive(&[
        ("--time", args.time.0),
        ("--search-time", args.load_args.search_time.0),
        ("--every", args.every.0),
    ])?;
    let mut plan = args.load_args.rtt_plan(args.every.0, args.time.0, args.load.map(|rate| rate.0));
    if args.idle {
        plan.loads = Vec::new();
    }
    let signals = Signals::terminating()?;
    let local = args.local.open(&args.client, &signals)?;
    args.client.measure(
        |session, made_by, display| measure::rtt_beside(session, &plan, local, made_by, display),
        |document| !document.phases.is_empty(),
    )
}

fn tcp(args: &TcpArgs) -> Result<ExitCode> {
    positive(&[("--time", args.time.0)])?;
    if let Some(long) = args.cc.iter().find(|name| name.len() > 15) {
        bail!("--cc {long}: names of congestion controls have at most 15 letters");
    }
    let sizes = args.window.iter().map(|window| u32::try_from(window.0.get()).ok());
    let mut windows = sizes.collect::<Option<Vec<u32>>>().context("--window must be less than 4 GiB")?;
    let mut congestion_controls = args.cc.clone();
    if windows.is_empty() {
        windows.push(0);
    }
    if congestion_controls.is_empty() {
        congestion_controls.push(String::new());
    }
    let plan = TcpPlan {
        directions: directions(&args.ways),
        length: args.time.0,
        repetitions: args.repetitions,
        congestion_controls,
        windows,
        key: args.client.key()?,
    };
    args.client.measure(
        |session, made_by, display| measure::tcp(session, &plan, made_by, display),
        |document| !document.runs.is_empty(),
    )
}

fn middlebox(args: &MiddleboxArgs) -> Result<ExitCode> {
    // Connections of one client at the server: a few for each port.
    const PORTS_MAX: usize = 16;
    positive(&[("--delay", args.delay.0)])?;
    let ports: Vec<u16> = args.ports.iter().filter_map(|port| port.0).collect();
    if ports.len() > PORTS_MAX {
        bail!("--ports: at most {PORTS_MAX}");
    }
    let part = |test: &MiddleboxTest| match test {
        MiddleboxTest::Split => MiddleboxPart::Split,
        MiddleboxTest::Options => MiddleboxPart::Options,
        MiddleboxTest::Requests => MiddleboxPart::Requests,
        MiddleboxTest::Refused => MiddleboxPart::Refused,
    };
    let plan = MiddleboxPlan {
        has_random: args.ports.iter().any(|port| port.0.is_none()),
        ports,
        delay: args.delay.0,
        parts: args.tests.iter().map(part).collect(),
        key: args.client.key_file.as_deref().map(read_key).transpose()?,
    };
    args.client.measure(
        |session, made_by, display| measure::middlebox(session, &plan, made_by, display),
        |document| !document.findings.is_empty(),
    )
}

fn timeout(args: &TimeoutArgs) -> Result<ExitCode> {
    let key = args.client.key()?;
    let plan = match &args.resume {
        Some(path) => {
            let document = document(path)?;
            let host = document["server"]["host"].as_str().unwrap_or_default();
            if host != args.client.host {
                bail!("{} is of {host}, not of {}", path.display(), args.client.host);
            }
            TimeoutPlan::resumed(&document, key).map_err(|e| anyhow!("{}: {e}", path.display()))?
        }
        None => TimeoutPlan {
            silences: silences(&args.silences)?,
            has_udp: args.protocols.contains(&Protocol::Udp),
            has_tcp: args.protocols.contains(&Protocol::Tcp),
            key,
            known: Vec::new(),
        },
    };
    args.client.measure(
        |session, made_by, display| measure::timeout(session, &plan, made_by, display),
        |document| !document.bindings.is_empty(),
    )
}

fn silences(given: &[Quantity<Duration>]) -> Result<Vec<Duration>> {
    const SILENCES_MAX: usize = 60;
    let silences: Vec<Duration> = given.iter().map(|silence| silence.0).collect();
    if silences.len() > SILENCES_MAX
        || silences.iter().any(|silence| *silence > Duration::from_secs(3 * 3_600))
    {
        bail!("--silences: at most {SILENCES_MAX}, each of at most 3 hours");
    }
    Ok(silences)
}

fn compare(args: &CompareArgs) -> Result<ExitCode> {
    let files = [args.json.as_deref(), args.html.as_deref()];
    let words = Words::beside(files)?;
    files.into_iter().flatten().try_for_each(writable::file)?;
    let environments =
        args.results.iter().map(|result| environment(result)).collect::<Result<Vec<_>, _>>()?;
    let comparison = measure::compare(&environments, maker()).map_err(Error::msg)?;
    words.say(&measure::compare_summary(&comparison, words.columns()));
    if let Some(path) = &args.html {
        output::save(path, &measure::compare_page(&comparison))?;
    }
    if let Some(path) = &args.json {
        output::save(path, &json_of(&comparison)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads `NAME=FILE` or `FILE`.
fn environment(result: &str) -> Result<Environment> {
    let named = result.split_once('=').filter(|(name, _)| !name.is_empty() && !Path::new(result).exists());
    let (name, path) = match named {
        Some((name, path)) => (Some(name), Path::new(path)),
        None => (None, Path::new(result)),
    };
    let document = document(path)?;
    let stem =
        || path.file_stem().map_or_else(|| result.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(Environment { name: name.map_or_else(stem, str::to_owned), document })
}

fn document(path: &Path) -> Result<serde_json::Value> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn maker() -> Maker {
    Maker {
        cellerator: env!("CARGO_PKG_VERSION").to_owned(),
        command: outcome::command_line(),
        started_unix_s: Clock::wall_nanos() / 1_000_000_000,
    }
}

fn json_of(document: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string_pretty(document).context("results as JSON")?;
    Ok(json + "\n")
}

fn directions(ways: &[Way]) -> Vec<Direction> {
    let of = |way: &Way| if *way == Way::Up { Direction::Up } else { Direction::Down };
    ways.iter().map(of).collect()
}

fn positive(times: &[(&str, Duration)]) -> Result<()> {
    match times.iter().find(|(_, time)| *time < Duration::from_millis(1)) {
        Some((name, time)) => bail!("{name} {time} is too short: at least 1 ms"),
        None => Ok(()),
    }
}

/// The key in a file: all of it but the end of the last line.
fn read_key(path: &Path) -> Result<Key> {
    let text = io::read_secret(path).context("the key")?;
    Key::new(text.trim_ascii_end())
        .with_context(|| format!("{} is empty: a key has at least one byte", path.display()))
}

/// Outcome of a measurement: its document, and why it is not the whole.
type Outcome<F, E> = Result<(Document<F>, Option<MeasureError>), E>;

impl ClientArgs {
    fn key(&self) -> Result<Option<Key>> {
        self.key_file.as_deref().map(read_key).transpose()
    }

    fn options(&self) -> Result<SessionOptions> {
        Ok(SessionOptions {
            host: self.host.clone(),
            port: self.port,
            address: match (self.ipv4, self.ipv6) {
                (true, _) => Address::V4,
                (_, true) => Address::V6,
                _ => Address::Any,
            },
            key: self.key()?,
            nonce: RandomState::new().build_hasher().finish(),
            patience: self.patience.0,
        })
    }

    /// Opens a session, measures, and writes what is wanted.
    fn measure<F: Figures, E: std::error::Error + Send + Sync + 'static>(
        &self,
        act: impl FnOnce(&mut Session<'_>, Maker, &mut Display) -> Outcome<F, E>,
        is_something: impl Fn(&F) -> bool,
    ) -> Result<ExitCode> {
        self.measure_and(act, is_something, |_| Ok(()))
    }

    /// The same, and saves more.
    fn measure_and<F: Figures, E: std::error::Error + Send + Sync + 'static>(
        &self,
        act: impl FnOnce(&mut Session<'_>, Maker, &mut Display) -> Outcome<F, E>,
        is_something: impl Fn(&F) -> bool,
        save: impl FnOnce(&Document<F>) -> Result<()>,
    ) -> Result<ExitCode> {
        let files = [self.json.as_deref(), self.html.as_deref()];
        let words = Words::beside(files)?;
        files.into_iter().flatten().try_for_each(writable::file)?;
        let options = self.options()?;
        let signals = Signals::terminating()?;
        let mut session = Session::open(&options, &signals)?;
        let mut display = Display::default();
        let done = act(&mut session, maker(), &mut display);
        drop(display);
        let (document, failure) = done?;
        session.close()?;
        if !is_something(&document) {
            return Err(failure.map_or_else(|| anyhow!("nothing was measured"), Error::from));
        }
        words.say(&document.summary(words.columns()));
        if let Some(path) = &self.html {
            output::save(path, &document.page())?;
        }
        if let Some(path) = &self.json {
            let json = serde_json::to_string_pretty(&document).context("results as JSON")?;
            output::save(path, &(json + "\n"))?;
        }
        save(&document)?;
        match failure {
            None => Ok(ExitCode::SUCCESS),
            Some(MeasureError::Interrupted) => {
                let plain = files.into_iter().flatten().filter(|path| !output::is_standard_output(path));
                interruption::tell("probe: interrupted", plain);
                Ok(interruption::code(signals.taken()))
            }
            Some(failure) => {
                eprintln!("cellerator: {failure}; what was measured until then is kept");
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// Progress of a measurement.
#[derive(Default)]
struct Display {
    line: Option<Line>,
    place: u32,
}

impl Watcher for Display {
    fn say(&mut self, what: &str) {
        // The one before goes first.
        self.line = None;
        self.line = Some(Line::of_parts(what).announced(what));
    }

    fn show(&mut self, moment: Moment) {
        match (moment, &self.line) {
            (Moment::Waits(place), _) if place != self.place => {
                self.place = place;
                eprintln!("  the server is busy: place {place} in its queue …");
            }
            (Moment::Moves(done, all), Some(line)) => line.reach(done.min(all), all),
            _ => {}
        }
    }
}
