//! `cellerator lab`.

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use io::{Clock, Interest, Namespace, PidFd, Signals, SpawnOptions, Waiter};
use lab::{AcceleratorCommand, Instance, Keep, Network, Role, Running, Session};
use scenario::{Case, Family, Scenario};
use units::Duration;

use crate::outcome::{self, Files};
use crate::output::{self, Words};
use crate::writable;

/// Arguments of `cellerator lab`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Set up a network and keep it until Ctrl-C, or while a command runs
    Up(UpArgs),
    /// Run a command on a host of a running lab
    Exec(ExecArgs),
    /// Open a shell on a host of a running lab
    Shell(ShellArgs),
    /// Run every case of a scenario with real TCP, in real time, and report
    Run(RunArgs),
    /// List running labs, and what killed labs left behind
    List,
    /// Remove what killed labs left behind
    Clean,
    /// Run scenarios of several radios with kernel MPTCP, with and without the path manager
    Multipath(crate::lab_multipath::Args),
    /// Run subscribers that move between two base stations, with a box behind each (docs/handover.md)
    Moves(crate::lab_moves::Args),
    /// Measure how exact the emulator is: delay, rate, throughput
    Benchmark(BenchmarkArgs),
}

#[derive(clap::Args)]
struct UpArgs {
    /// Scenario file; without one, --preset gives the radio link
    scenario: Option<PathBuf>,
    /// The case whose network to set up [default: the first]
    #[arg(long, requires = "scenario")]
    case: Option<String>,
    /// Synthetic radio link: 3g-hspa, 3g-evdo, 4g-lte, 4g-lte-drive, 5g-nr
    #[arg(long, conflicts_with = "scenario", default_value = "4g-lte")]
    preset: String,
    /// Name of the lab [default: the process's number]
    #[arg(long)]
    name: Option<String>,
    /// Host on which the command runs
    #[arg(long, default_value = "client", value_parser = host)]
    on: Role,
    /// Command to run; the lab ends with it
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(clap::Args)]
struct ExecArgs {
    /// server, accelerator or client
    #[arg(value_parser = host)]
    host: Role,
    /// Name of the lab [default: the only one]
    #[arg(long)]
    name: Option<String>,
    /// Command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(clap::Args)]
struct ShellArgs {
    /// server, accelerator or client
    #[arg(value_parser = host)]
    host: Role,
    /// Name of the lab [default: the only one]
    #[arg(long)]
    name: Option<String>,
}

#[derive(clap::Args)]
struct RunArgs {
    /// Scenario file
    scenario: PathBuf,
    /// Run only this case
    #[arg(long)]
    case: Option<String>,
    /// Folder of the traces that the scenario names [default: that of the scenario's file]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Name of the lab [default: the process's number]
    #[arg(long)]
    name: Option<String>,
    /// Write the results as JSON (schemas/lab-results.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Capture on the server's and the client's interface in each run, into this folder, and write down
    /// the counters of kernels and links
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
}

#[derive(clap::Args)]
struct BenchmarkArgs {
    /// Also replay this trace (Mahimahi format)
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures as a Markdown table
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn host(text: &str) -> Result<Role> {
    Role::from_name(text).context("allowed are server, accelerator and client")
}

/// Runs `cellerator lab`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode> {
    match args.command {
        LabCommand::Up(args) => up(&args),
        LabCommand::Exec(args) => exec(args.name.as_deref(), args.host, &args.command),
        LabCommand::Shell(args) => {
            let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
            exec(args.name.as_deref(), args.host, &[shell])
        }
        LabCommand::Run(args) => run(&args),
        LabCommand::List => list(),
        LabCommand::Clean => {
            for name in lab::instance::clean()? {
                println!("removed what lab `{name}` left behind");
            }
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Multipath(args) => crate::lab_multipath::main(&args),
        LabCommand::Moves(args) => crate::lab_moves::main(&args),
        LabCommand::Benchmark(args) => benchmark(&args),
    }
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let (scenario, own) = outcome::read(&args.scenario)?;
    let traces = args.traces.clone().unwrap_or(own);
    let title = format!("Cellerator: {}", scenario.heading());
    let files = Files {
        json: args.json.as_deref(),
        html: args.html.as_deref(),
        title: &title,
        captures: args.captures.as_deref(),
        pictures: None,
    };
    outcome::run(&[scenario], args.case.as_deref(), &traces, args.name.as_deref(), &files)
}

fn up(args: &UpArgs) -> Result<ExitCode> {
    let (scenario, traces) = match &args.scenario {
        Some(path) => outcome::read(path)?,
        None => (preset(&args.preset)?, PathBuf::from(".")),
    };
    let case = one_case(&scenario, args.case.as_deref())?;
    let signals = Signals::terminating()?;
    let instance = Instance::register(args.name.as_deref(), scenario.heading())?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let is_accelerated = case.accelerator.enabled.unwrap_or(false);
    let has_feedback = case.feedback.base_station().is_some();
    let accelerator =
        is_accelerated.then(|| AcceleratorCommand::new(&program, &case).with_feedback(has_feedback));
    if let Some(lack) = accelerator.as_ref().and_then(AcceleratorCommand::lack) {
        bail!("case `{}` needs the accelerator: {lack}", case.name);
    }
    let plan = case.links(scenario.seed, &mut |file| lab::read_trace(&traces, file))?;
    let mut session = Session::build(&instance, &case, accelerator.as_ref())?;
    session.begin(&plan, Keep::Nothing)?;
    let code = if args.command.is_empty() {
        announce(&instance, &scenario, &case, args.name.is_some());
        wait(&mut session, &signals)?;
        ExitCode::SUCCESS
    } else {
        execute(session.network().namespace(args.on), &args.command, None)?
    };
    let timing = session.end()?.judged(true);
    let late = timing.late_us;
    if late.count > 0 {
        eprintln!(
            "{} packets, late by {:.1} µs on average, 99 % by less than {:.1} µs, at most {:.0} µs",
            late.count, late.mean, late.p99, late.max
        );
    }
    if let Some(why) = timing.why_not {
        eprintln!("{why}");
    }
    Ok(code)
}

/// A network around a synthetic radio link.
fn preset(name: &str) -> Result<Scenario> {
    let toml = format!(
        "name = \"up\"\ntitle = \"{name}\"\nwan.delay = \"5 ms\"\n\
         radio.down = {{ preset = \"{name}\", delay = \"20 ms\" }}\nradio.up = {{ preset = \"{name}\", \
         delay = \"20 ms\" }}\n"
    );
    Scenario::from_toml("--preset", &toml).map_err(|e| match e {
        scenario::Error::File { message, .. } => anyhow!("--preset: {message}"),
        other => other.into(),
    })
}

fn one_case(scenario: &Scenario, name: Option<&str>) -> Result<Case> {
    let cases = scenario.resolved();
    let names: Vec<String> = cases.iter().map(|c| format!("`{}`", c.name)).collect();
    let found = cases.into_iter().find(|case| name.is_none_or(|name| case.name == name));
    found
        .with_context(|| format!("no case is named `{}`; there are {}", name.unwrap_or(""), names.join(", ")))
}

/// Says what is there and how to use it.
fn announce(instance: &Instance, scenario: &Scenario, case: &Case, is_named: bool) {
    let name = instance.name();
    let server = lab::server_address(Family::Ipv4);
    let case = if scenario.cases.is_empty() { String::new() } else { format!(", case {}", case.name) };
    println!("Lab `{name}` is up: {}{case}. Ctrl-C ends it.\n", scenario.heading());
    let v6 = Family::Ipv6;
    let rows = [
        (Role::Server, vec![server, lab::server_address(v6)]),
        (Role::Accelerator, vec![lab::radio_gateway(Family::Ipv4), lab::radio_gateway(v6)]),
        (Role::Client, vec![lab::client_address(Family::Ipv4), lab::client_address(v6)]),
    ];
    for (host, addresses) in rows {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        println!(
            "  {:<12} {:<22} namespace {}",
            host.name(),
            addresses.join(", "),
            Network::namespace_name(name, host)
        );
    }
    let which = if is_named { format!(" --name {name}") } else { String::new() };
    println!(
        "\nIn another terminal:\n\n  cellerator lab exec{which} client -- ping -c 3 {server}\n  cellerator \
         lab shell{which} server\n"
    );
}

/// Waits for a signal, or for a part of the lab to fail.
fn wait(session: &mut Session, signals: &Signals) -> Result<()> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(signals, Interest::Read, 0)?;
    while signals.take().is_none() {
        session.check()?;
        waiter.wait(Some(Clock::now() + Duration::from_secs(1)))?;
    }
    Ok(())
}

fn exec(name: Option<&str>, host: Role, command: &[String]) -> Result<ExitCode> {
    let running = Running::find(name)?;
    // Ctrl-C is for the command, which ends or not as it likes; this process only waits for it.
    let _signals = Signals::terminating()?;
    execute(&running.namespace(host)?, command, Some(&running))
}

/// Runs a command in a namespace to its end, or to that of the lab of another process, and gives its exit code,
/// 128 + number for a signal.
fn execute(namespace: &Namespace, command: &[String], lab: Option<&Running>) -> Result<ExitCode> {
    let Some((program, arguments)) = command.split_first() else { bail!("no command given") };
    let mut child = Command::new(program);
    child.args(arguments);
    let options = SpawnOptions { death_signal: Some(1), own_process_group: false };
    let mut child = namespace.spawn(child, options)?;
    if let Some(lab) = lab {
        watch(&mut child, lab)?;
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{program}`"))?;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Waits until a command has ended, and ends it when its lab has: its network is gone, and it would stay.
fn watch(child: &mut Child, lab: &Running) -> Result<()> {
    const TURN: Duration = Duration::from_millis(200);
    /// `SIGTERM`, and for how long it is given time to end.
    const TERM: i32 = 15;
    const PATIENCE: Duration = Duration::from_secs(3);
    let process = PidFd::open(child.id())?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&process, Interest::Read, 0)?;
    while waiter.wait(Some(Clock::now() + TURN))?.is_empty() {
        if !lab.is_running() {
            eprintln!("lab `{}` has ended, and the command in it is ended too", lab.name());
            let _ = process.send_signal(TERM);
            if waiter.wait(Some(Clock::now() + PATIENCE))?.is_empty() {
                let _ = child.kill();
            }
            break;
        }
    }
    Ok(())
}

fn list() -> Result<ExitCode> {
    let running = lab::instance::list()?;
    let left = lab::instance::leftovers().unwrap_or_else(|error| {
        eprintln!("what killed labs left behind cannot be seen ({error}): run as root");
        Vec::new()
    });
    if running.is_empty() {
        println!("no lab is running");
    }
    for lab in running {
        println!("{:<20} process {:<8} {}", lab.name(), lab.pid(), lab.title());
    }
    for name in left {
        println!("{name:<20} left behind by a killed lab: `cellerator lab clean` removes it");
    }
    Ok(ExitCode::SUCCESS)
}

fn benchmark(args: &BenchmarkArgs) -> Result<ExitCode> {
    let words = Words::beside([args.json.as_deref(), args.markdown.as_deref()])?;
    [&args.json, &args.markdown].into_iter().flatten().try_for_each(|path| writable::file(path))?;
    let signals = Signals::terminating()?;
    let instance = Instance::register(None, "benchmark")?;
    let made_by = lab::made_by(env!("CARGO_PKG_VERSION"), &outcome::command_line());
    let program = std::env::current_exe()?;
    let benchmark = lab::benchmark::Benchmark { instance: &instance, program: &program, signals: &signals };
    let figures = benchmark.run(made_by, &args.trace, &mut |what| eprintln!("  {what} …"))?;
    let markdown = figures.markdown();
    words.say(&figures::for_terminal(&markdown, words.columns()));
    if let Some(path) = &args.markdown {
        output::save(path, &markdown)?;
    }
    if let Some(path) = &args.json {
        output::save(path, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
