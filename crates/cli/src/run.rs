//! `cellerator run`.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, ValueEnum};
use control::{
    AdaptiveParams, BbrParams, ControllerConfig, CubicParams, FixedParams, NewRenoParams, RateParams,
};
use engine::{ConfigError, EngineConfig, Sharing, WindowPolicy};
use run::{
    Accelerator, AfterHang, Config, Event, InlineFallback, Notrack, ReadSettings, Reread, RunError, Severity,
    SteeringChoice,
};
use scenario::Quantity;
use units::{Bytes, Duration, Rate};

use crate::feedback_args::{FeedbackArgs, WindowAdaptationArgs};
use crate::policy_args::PolicyArgs;
use crate::settings_file;

/// Arguments of `cellerator run`.
#[derive(clap::Args)]
pub struct Args {
    /// Interface towards the servers
    #[arg(long, value_name = "IF", required_unless_present_any = ["watchdog", "config", "inline"])]
    wired: Option<String>,
    /// Interface towards the clients
    #[arg(long, value_name = "IF", required_unless_present_any = ["watchdog", "config", "inline"])]
    mobile: Option<String>,
    /// Be a bridge between two interfaces, WIRED towards the servers, instead of taking TCP out of what a router forwards
    #[arg(long, num_args = 2, value_names = ["WIRED", "MOBILE"], conflicts_with_all = ["wired", "mobile", "replace"])]
    inline: Option<Vec<String>>,
    /// What joins the two interfaces of --inline when this process dies or hangs
    /// [default: none]
    #[arg(long, value_enum, value_name = "WHAT")]
    inline_fallback: Option<Fallback>,
    /// What `status`, `drain` and others call this accelerator [default: WIRED-MOBILE]
    #[arg(long)]
    name: Option<String>,
    /// Read settings from a TOML file with these flags' names, such as `r-cap = "30 Mbit/s"`; flags given here win.
    /// SIGHUP and `cellerator reload` read it anew
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take the place of a running accelerator, by name or process number, without a flow noticing: new flows are this
    /// one's at once, the other one hands its own back and ends
    #[arg(long, value_name = "NAME")]
    replace: Option<String>,
    /// Print what would be set up and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    feedback: FeedbackArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Be the watchdog over a record, acting after so many milliseconds
    #[arg(long, hide = true, num_args = 2, value_names = ["RECORD", "MS"], exclusive = true)]
    watchdog: Option<Vec<String>>,
}

/// How flows are accelerated.
#[derive(clap::Args)]
#[command(next_help_heading = "Acceleration")]
struct EngineArgs {
    /// How the sending rate towards a client is found
    #[arg(long, value_enum, default_value = "adaptive")]
    controller: Controller,
    /// The rate of `fixed` [default: 5.6 Mbit/s]
    #[arg(long)]
    rate: Option<Quantity<Rate>>,
    /// The link's capacity, for `rate`: nothing is sent faster [default: learned, 5/4 of the largest delivery rate of 10 s,
    /// from 100 Mbit/s on; [MA] has 100 Mbit/s for LTE and 5.6 Mbit/s for 3G]
    #[arg(long)]
    r_cap: Option<Quantity<Rate>>,
    /// Data in flight at most, as time at the current rate, or `none` [default: 120 ms for `rate`, none for `fixed`]
    #[arg(long, value_name = "TIME", value_parser = cap)]
    in_flight_cap: Option<Cap>,
    /// What one controller is for: all flows of a client address, which share one radio queue, or each flow by itself as
    /// in conventional split TCP
    #[arg(long, value_enum, default_value = "subscriber")]
    sharing: SharingArg,
    /// A parameter of the controller, as `beta_permille=800` for `cubic` or `r_cap_memory=10s` for `rate`; an unknown name
    /// is answered with all there are; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Whether the client's receive window limits what is sent to it; see NOTICE for the second
    #[arg(long, value_enum, default_value = "honour")]
    window_policy: Policy,
    /// Pass everything: only the path through this process remains
    #[arg(long)]
    no_accelerate: bool,
    #[command(flatten)]
    window_adaptation: WindowAdaptationArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// How the accelerator is attached to this machine.
#[derive(clap::Args)]
#[command(next_help_heading = "This machine")]
struct MachineArgs {
    /// How packets get into this process: by BPF programs at the interfaces (`tcx`: Linux 6.6, no connection tracking on
    /// this machine), or by policy rules
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    steering: SteeringArg,
    /// Have flows that are passed come through this process too, where tcx would leave them to the kernel
    #[arg(long)]
    no_bypass: bool,
    /// Keep connection tracking away from the mobile side: needed with NAT or a stateful firewall
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    notrack: When,
    /// Switch IP forwarding on, and back on exit
    #[arg(long)]
    set_forwarding: bool,
    /// Silence of this process after which a watchdog takes the steering away
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    hang_after: Quantity<Duration>,
    /// What to do after such a hang
    #[arg(long, value_enum, default_value = "resume", value_name = "WHAT")]
    after_hang: Afterwards,
    /// Run without the watchdog: a hang then blocks TCP where rules steer, and after a crash nobody resets flows with debt
    /// before the next start
    #[arg(long)]
    no_watchdog: bool,
    /// Longest time to deliver what is owed to clients on exit
    #[arg(long, value_name = "TIME", default_value = "5 s")]
    drain_time: Quantity<Duration>,
    /// Threads that handle packets, each for some of the subscribers [default: one per processor, 8 at most; one less with --busy-poll]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// Never sleep: fastest reaction, one processor per shard busy all the time
    #[arg(long)]
    busy_poll: bool,
    /// Stop sleeping and spin this long before each deadline: exact pacing for processor time
    #[arg(long, value_name = "TIME", default_value = "0 us")]
    spin_margin: Quantity<Duration>,
    /// Exchange ordinary packets with the kernel instead of super-packets
    #[arg(long)]
    no_gso: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Controller {
    /// The shortest queue that keeps a varying link busy; finds everything itself
    Adaptive,
    /// A constant rate
    Fixed,
    /// The rate follows the delivery rate and the round-trip time
    Rate,
    /// The base station's reports set the window (--feedback); `rate` while there are none
    WindowAdaptation,
    /// Conventional split TCP: NewReno's window
    NewReno,
    /// Conventional split TCP: CUBIC's window
    Cubic,
    /// Conventional split TCP: BBR
    Bbr,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SharingArg {
    /// All flows of a client address or IPv6 prefix
    Subscriber,
    /// Each flow
    Flow,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// Never more than the client advertises
    Honour,
    /// Irrespective of the window unless it is zero
    Opportunistic,
}

#[derive(Clone, Copy, ValueEnum)]
enum SteeringArg {
    /// tcx where that is possible, else rules
    Auto,
    Tcx,
    Rules,
}

#[derive(Clone, Copy, ValueEnum)]
enum When {
    /// When this machine has NAT or connection tracking rules
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, ValueEnum)]
enum Fallback {
    /// Nothing: the wire is cut
    None,
    /// A bridge of the kernel's, until the next start
    Bridge,
}

#[derive(Clone, Copy, ValueEnum)]
enum Afterwards {
    /// Install the steering again
    Resume,
    /// End in good order
    Exit,
}

/// A limit of data in flight, or none.
#[derive(Clone, Copy)]
struct Cap(Option<Duration>);

fn cap(text: &str) -> Result<Cap, String> {
    if text == "none" {
        return Ok(Cap(None));
    }
    text.parse()
        .map(|Quantity(time)| Cap(Some(time)))
        .map_err(|error: scenario::QuantityError| error.to_string())
}

/// Runs `cellerator run`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode, String> {
    if let Some([record, hang_after_ms]) = args.watchdog.as_deref() {
        return watchdog(record, hang_after_ms);
    }
    let given: Vec<OsString> = std::env::args_os().skip_while(|word| word != "run").skip(1).collect();
    let (args, settings) = match args.config.clone() {
        Some(path) => (with_file(&path, &given)?, Some(path)),
        None => (args, None),
    };
    let engine = engine_config(&args.engine)?;
    let read = settings.map(|path| reading(path, given)).transpose()?;
    let is_dry_run = args.dry_run;
    let config = machine_config(args)?;
    let result =
        if is_dry_run { run::dry_run(&config, &mut show) } else { accelerate(&config, &engine, read) };
    result.map(|()| ExitCode::SUCCESS).map_err(|error| format!("run: {error}"))
}

/// Reads the file at `path` anew, below the flags `given`.
fn reading(path: PathBuf, given: Vec<OsString>) -> Result<ReadSettings, String> {
    let flags =
        |path: &Path| settings_file::flags(path, &Line::command()).map_err(|error| format!("run: {error}"));
    let at_start = flags(&path)?;
    Ok(Box::new(move || {
        let engine = engine_config(&with_file(&path, &given)?.engine)?;
        Ok(Reread { engine, at_next_start: waiting(&at_start, &flags(&path)?, &given) })
    }))
}

/// The settings that differ between two readings of a file, are not the engine's, and that no flag overrides.
fn waiting(before: &[String], after: &[String], given: &[OsString]) -> Vec<String> {
    let engine = <EngineArgs as clap::Args>::augment_args(clap::Command::new("run"));
    let name_of = |flag: &str| {
        let flag = flag.trim_start_matches("--");
        flag.split_once('=').map_or(flag, |(name, _)| name).to_owned()
    };
    let is_of_machine = |flag: &&String| {
        let name = name_of(flag);
        let is_given = given.iter().any(|given| name_of(&given.to_string_lossy()) == name);
        !is_given && !engine.get_arguments().any(|argument| argument.get_long() == Some(&name))
    };
    let new = after.iter().filter(|flag| !before.contains(flag)).filter(is_of_machine);
    let mut lines: Vec<String> =
        new.map(|flag| flag.trim_start_matches("--").replacen('=', " = ", 1)).collect();
    let names: Vec<String> = after.iter().map(|flag| name_of(flag)).collect();
    let gone = before.iter().filter(is_of_machine).map(|flag| name_of(flag));
    lines.extend(gone.filter(|name| !names.contains(name)).map(|name| format!("without {name}")));
    lines
}

/// Flags of the command line and settings of a file, which go before.
#[derive(Parser)]
#[command(name = "run", args_override_self = true)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The settings of the file at `path` and the flags `given`, which win.
fn with_file(path: &Path, given: &[OsString]) -> Result<Args, String> {
    let from_file = settings_file::flags(path, &Line::command()).map_err(|error| format!("run: {error}"))?;
    let words = std::iter::once(OsString::from("run"))
        .chain(from_file.into_iter().map(OsString::from))
        .chain(given.iter().cloned());
    let args = Line::try_parse_from(words).map(|line| line.args).map_err(|error| {
        let text = error.to_string();
        let problem = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        // The flags alone have been read already.
        let line =
            settings_file::line_of(path, problem).map_or(String::new(), |line| format!(", line {line}"));
        format!("run: {}{line}: {problem}", path.display())
    })?;
    match (&args.wired, &args.mobile) {
        _ if args.inline.is_some() => Ok(args),
        (Some(_), Some(_)) => Ok(args),
        _ => Err(format!("run: neither {} nor a flag says `wired` and `mobile`", path.display())),
    }
}

fn watchdog(record: &str, hang_after_ms: &str) -> Result<ExitCode, String> {
    let hang_after_ms =
        hang_after_ms.parse().map_err(|_| format!("run: '{hang_after_ms}' is not a number"))?;
    run::watch(Path::new(record), Duration::from_millis(hang_after_ms)).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The engine's settings by arguments of `cellerator run`; an error is one line.
pub fn engine_config_of(arguments: &[String]) -> Result<EngineConfig, String> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        engine: EngineArgs,
    }
    let words = std::iter::once("run").chain(arguments.iter().map(String::as_str));
    let line = <Line as clap::Parser>::try_parse_from(words)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    engine_config(&line.engine)
}

fn engine_config(args: &EngineArgs) -> Result<EngineConfig, String> {
    let has_settings = args.rate.is_some() || args.r_cap.is_some() || args.in_flight_cap.is_some();
    let controller = match args.controller {
        Controller::Adaptive
        | Controller::WindowAdaptation
        | Controller::NewReno
        | Controller::Cubic
        | Controller::Bbr
            if has_settings =>
        {
            return Err(
                "run: --rate, --r-cap and --in-flight-cap belong to --controller fixed and rate; the others \
                        find their limits themselves"
                    .to_owned(),
            );
        }
        Controller::Adaptive => ControllerConfig::Adaptive(AdaptiveParams::default()),
        Controller::WindowAdaptation => args.window_adaptation.config(),
        Controller::NewReno => ControllerConfig::NewReno(NewRenoParams::default()),
        Controller::Cubic => ControllerConfig::Cubic(CubicParams::default()),
        Controller::Bbr => ControllerConfig::Bbr(BbrParams::default()),
        Controller::Fixed if args.r_cap.is_some() => {
            return Err("run: --r-cap belongs to --controller rate; `fixed` has --rate".to_owned());
        }
        Controller::Rate if args.rate.is_some() => {
            return Err("run: --rate belongs to --controller fixed; `rate` has --r-cap".to_owned());
        }
        Controller::Fixed => {
            let mut params = FixedParams::default();
            params.rate = args.rate.map_or(params.rate, |Quantity(rate)| rate);
            if let Some(Cap(cap)) = args.in_flight_cap {
                params.window = cap.map_or(Bytes::MAX, |cap| params.rate.bytes_in(cap));
            }
            ControllerConfig::Fixed(params)
        }
        Controller::Rate => {
            let mut params = match args.r_cap {
                Some(Quantity(r_cap)) => RateParams { r_cap, ..RateParams::default() },
                None => RateParams::learning(),
            };
            params.in_flight_cap = args.in_flight_cap.map_or(params.in_flight_cap, |Cap(cap)| cap);
            ControllerConfig::Rate(params)
        }
    };
    let window_policy = match args.window_policy {
        Policy::Honour => WindowPolicy::Honour,
        Policy::Opportunistic => WindowPolicy::Opportunistic,
    };
    let mut config = EngineConfig {
        accelerate: !args.no_accelerate,
        controller: with_settings(controller, &args.set)?,
        sharing: match args.sharing {
            SharingArg::Subscriber => Sharing::Subscriber,
            SharingArg::Flow => Sharing::Flow,
        },
        window_policy,
        hash_seed: RandomState::new().build_hasher().finish(),
        ..EngineConfig::default()
    };
    args.policy.apply(&mut config);
    config.validate().map_err(|error| format!("run: {}", in_flags(&error)))?;
    Ok(config)
}

/// What is wrong with the engine's settings, with the flags that set them.
fn in_flags(error: &ConfigError) -> String {
    const FLAGS: [(&str, &str); 4] = [
        ("buffer_max", "--memory-max"),
        ("subscriber_buffer_max", "--subscriber-memory-max"),
        ("flow_buffer_max", "--flow-memory-max"),
        ("window_floor", "--window-max"),
    ];
    match *error {
        ConfigError::Zero(name) => {
            let flag = FLAGS.iter().find(|(setting, _)| *setting == name);
            let flag = flag.map_or_else(|| format!("--{}", name.replace('_', "-")), |(_, f)| (*f).to_owned());
            format!("{flag} must be greater than zero")
        }
        _ => error.to_string(),
    }
}

/// The controller with the parameters of `--set`.
fn with_settings(mut controller: ControllerConfig, settings: &[String]) -> Result<ControllerConfig, String> {
    for setting in settings {
        let wrong = |problem: String| format!("run: --set {setting}: {problem}");
        let (name, value) = setting.split_once('=').ok_or_else(|| wrong("write NAME=VALUE".to_owned()))?;
        let value = ::contest::parameter_value(value).ok_or_else(|| {
            wrong(format!("`{value}` is no value: write 250, true, 20 ms, 5 Mbit/s, 10 KB or off"))
        })?;
        controller.set(name.trim(), value).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(controller)
}

/// Shortest silence that counts as a hang.
const HANG_AFTER_MIN: Duration = Duration::from_millis(100);

/// True for a name that people can give to `drain` and others without quotes.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 40 && !name.starts_with(['-', '.']) && name.chars().all(is_plain)
}

fn machine_config(args: Args) -> Result<Config, String> {
    let machine = args.machine;
    let inline = args.inline.as_ref().map(|_| match args.inline_fallback {
        Some(Fallback::Bridge) => InlineFallback::Bridge,
        Some(Fallback::None) | None => InlineFallback::None,
    });
    if inline.is_none() && args.inline_fallback.is_some() {
        return Err("run: --inline-fallback belongs to --inline: without, there is no bridge".to_owned());
    }
    let hang_after = machine.hang_after.0;
    if hang_after < HANG_AFTER_MIN {
        return Err(format!(
            "run: --hang-after must be at least {} ms: a loaded machine needs as much",
            HANG_AFTER_MIN.as_millis()
        ));
    }
    if let Some(name) = args.name.as_deref().filter(|name| !is_plain(name)) {
        return Err(format!(
            "run: --name '{name}': letters, digits, `-`, `_` or `.`, at most 40, as in lte-2"
        ));
    }
    let [wired, mobile] = match args.inline.as_deref() {
        Some([wired, mobile]) => [wired.clone(), mobile.clone()],
        _ => [args.wired, args.mobile].map(Option::unwrap_or_default),
    };
    Ok(Config {
        inline,
        feedback: args.feedback.config()?,
        name: args.name.unwrap_or_default(),
        replace: args.replace,
        wired,
        mobile,
        steering: match machine.steering {
            SteeringArg::Auto => SteeringChoice::Auto,
            SteeringArg::Tcx => SteeringChoice::Tcx,
            SteeringArg::Rules => SteeringChoice::Rules,
        },
        bypass: !machine.no_bypass,
        notrack: match machine.notrack {
            When::Auto => Notrack::Auto,
            When::Always => Notrack::Always,
            When::Never => Notrack::Never,
        },
        set_forwarding: machine.set_forwarding,
        gso: !machine.no_gso,
        shards: machine.shards.map_or(0, usize::from),
        ipv6_prefix_len: args.engine.policy.ipv6_prefix(),
        busy_poll: machine.busy_poll,
        spin_margin_us: machine.spin_margin.0.as_micros(),
        hang_after_ms: hang_after.as_millis(),
        after_hang: match machine.after_hang {
            Afterwards::Resume => AfterHang::Resume,
            Afterwards::Exit => AfterHang::Exit,
        },
        watchdog: !machine.no_watchdog,
        drain_ms_max: machine.drain_time.0.as_millis(),
        ..Config::default()
    })
}

/// What was set up goes to standard output, what needs attention to standard error. A reader who has
/// gone away is no reason to stop.
fn show(event: &Event) {
    if event.severity() == Severity::Info {
        drop(writeln!(std::io::stdout(), "{event}"));
    } else {
        drop(writeln!(std::io::stderr(), "cellerator: {}", event.line()));
    }
}

fn accelerate(config: &Config, engine: &EngineConfig, read: Option<ReadSettings>) -> Result<(), RunError> {
    if engine.window_policy == WindowPolicy::Opportunistic {
        show(&Event::PatentClaim);
    }
    let make = |shards| {
        Accelerator::for_shards(engine, shards, read).map_err(|error| RunError::Settings(error.to_string()))
    };
    run::run(config, make, &mut show)?.tell(&mut show);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, String> {
        // Words are separated by two spaces: quantities contain one.
        let words = std::iter::once("run").chain(line.split("  "));
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    fn engine(line: &str) -> Result<EngineConfig, String> {
        engine_config(&parse(&format!("--wired  w0  --mobile  m0{line}")).unwrap().engine)
    }

    #[test]
    fn defaults_are_those_of_the_crates() {
        let args = parse("--wired  w0  --mobile  m0").unwrap();
        let made = EngineConfig { hash_seed: 0, ..engine_config(&args.engine).unwrap() };
        assert_eq!(made, EngineConfig::default());
        let wanted = Config { wired: "w0".to_owned(), mobile: "m0".to_owned(), ..Config::default() };
        assert_eq!(machine_config(args), Ok(wanted));
    }

    #[test]
    fn settings_reach_the_controller() {
        let rate =
            engine("  --controller  rate  --r-cap  30 Mbit/s  --in-flight-cap  none").unwrap().controller;
        let wanted = RateParams { r_cap: Rate::from_mbps(30), in_flight_cap: None, ..RateParams::default() };
        assert_eq!(rate, ControllerConfig::Rate(wanted));
        let fixed =
            engine("  --controller  fixed  --rate  8 Mbit/s  --in-flight-cap  100 ms").unwrap().controller;
        let wanted =
            FixedParams { rate: Rate::from_mbps(8), window: Bytes::new(100_000), ..FixedParams::default() };
        assert_eq!(fixed, ControllerConfig::Fixed(wanted));
        let made = engine("  --window-policy  opportunistic  --no-accelerate").unwrap();
        assert_eq!((made.window_policy, made.accelerate), (WindowPolicy::Opportunistic, false));
    }

    #[test]
    fn split_tcp_takes_a_name_and_no_settings() {
        for name in ["new-reno", "cubic", "bbr"] {
            let made = engine(&format!("  --controller  {name}")).unwrap().controller;
            assert_eq!(Some(made), ControllerConfig::named(name));
            assert!(engine(&format!("  --controller  {name}  --rate  8 Mbit/s")).is_err());
        }
    }

    #[test]
    fn split_tcp_has_a_controller_per_flow_and_cubic_any_reduction() {
        let split = engine("  --controller  cubic  --sharing  flow  --set  beta_permille=800").unwrap();
        let wanted = CubicParams { beta_permille: 800, ..CubicParams::default() };
        assert_eq!((split.controller, split.sharing), (ControllerConfig::Cubic(wanted), Sharing::Flow));
        let unknown = engine("  --controller  cubic  --set  beta=800").unwrap_err();
        assert!(unknown.contains("it has mss, initial_window_segments, beta_permille"), "{unknown}");
        assert!(engine("  --set  alpha").unwrap_err().contains("NAME=VALUE"));
        assert!(engine("  --set  alpha=7 parsecs").unwrap_err().contains("20 ms"));
    }

    #[test]
    fn settings_of_the_other_controller_are_refused() {
        assert!(engine("  --rate  8 Mbit/s").unwrap_err().contains("--controller fixed"));
        assert!(engine("  --controller  fixed  --r-cap  8 Mbit/s").unwrap_err().contains("--rate"));
        assert!(parse("--wired  w0").err().unwrap().contains("--mobile"));
        assert!(parse("--wired  w0  --mobile  m0  --rate  8").err().unwrap().contains("Mbit/s"));
    }

    #[test]
    fn a_file_gives_settings_and_flags_win() {
        let path = std::env::temp_dir().join(format!("ct-cli-settings-{}", std::process::id()));
        let read = |text: &str, flags: &[&str]| {
            std::fs::write(&path, text).unwrap();
            let given: Vec<OsString> = flags.iter().map(OsString::from).collect();
            with_file(&path, &given)
        };
        let text =
            "wired = \"w0\"\nmobile = \"m0\"\nno-gso = true\ncontroller = \"fixed\"\nrate = \"8 Mbit/s\"\n";
        let args = read(text, &["--config", "x", "--rate", "9 Mbit/s", "--mobile", "m1"]).unwrap();
        let wanted = FixedParams { rate: Rate::from_mbps(9), ..FixedParams::default() };
        assert_eq!(engine_config(&args.engine).unwrap().controller, ControllerConfig::Fixed(wanted));
        let config = machine_config(args).unwrap();
        assert_eq!((config.wired.as_str(), config.mobile.as_str(), config.gso), ("w0", "m1", false));
        assert!(read("wired = \"w0\"", &["--config", "x"]).err().unwrap().contains("`mobile`"));
        let problem = read("no-gso = true\nrate = \"8\"", &[]).err().unwrap();
        assert!(problem.contains("Mbit/s") && problem.contains(", line 2:"), "{problem}");
        assert_eq!(problem.lines().count(), 1, "{problem}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn settings_of_the_machine_wait_for_the_next_start() {
        let path = std::env::temp_dir().join(format!("ct-cli-reread-{}", std::process::id()));
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("wired = \"w0\"\nmobile = \"m0\"\nno-gso = true\nhang-after = \"2 s\"\n");
        let given = ["--hang-after", "3 s"].map(OsString::from).to_vec();
        let mut read = reading(path.clone(), given).unwrap();
        assert!(read().unwrap().at_next_start.is_empty());
        write("wired = \"w0\"\nmobile = \"m9\"\nhang-after = \"4 s\"\ncontroller = \"cubic\"\n");
        let reread = read().unwrap();
        assert_eq!(reread.at_next_start, ["mobile = m9", "without no-gso"]);
        assert_eq!(reread.engine.controller.name(), "cubic");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_flag_that_says_so() {
        let machine =
            |line: &str| machine_config(parse(&format!("--wired  w0  --mobile  m0{line}")).unwrap());
        assert!(machine("  --hang-after  0 s").unwrap_err().contains("at least 100"));
        assert!(machine("  --name  a b/c").unwrap_err().contains("'a b/c'"));
        assert!(machine("  --inline-fallback  bridge").unwrap_err().contains("belongs to --inline"));
        assert!(machine("  --name  lte-2  --hang-after  100 ms").is_ok());
        assert_eq!(engine("  --memory-max  0 B").unwrap_err(), "run: --memory-max must be greater than zero");
    }

    #[test]
    fn the_watchdog_needs_no_interfaces() {
        assert_eq!(parse("--watchdog  /x/record  1000").unwrap().watchdog.unwrap(), ["/x/record", "1000"]);
    }
}
