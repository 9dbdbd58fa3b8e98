//! `cellerator top`: a live view in a terminal, of this machine or another one; and what lets others look.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use scenario::Quantity;
use top::{Gate, Live, Local, Remote, Secrets, Source};
use units::Duration;

use crate::looking::{only_look, only_look_and_tell};
use crate::served::{reader, say, say_ready, serve_beside};

/// Shortest time between two samples.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Arguments of `cellerator top`.
#[derive(clap::Args)]
pub struct Args {
    /// The accelerator to begin with; with --once and --json, those to print; with --serve, those that may be looked
    /// at [default: all that run]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Look at the accelerators of another machine, where `cellerator top --serve` runs
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "serve", requires = "certificate")]
    connect: Option<String>,
    /// With --connect: whom to trust, PEM: the other machine's certificate, or the authority's that vouches
    /// for it. With --serve: the certificate to show
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// The token that both machines know: the first line of a file. With --connect also from the variable
    /// CELLERATOR_TOP_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let others look at this machine's accelerators at this address, with TLS and a token
    #[arg(long, value_name = "ADDRESS", requires_all = ["certificate", "key", "token_file"])]
    serve: Option<SocketAddr>,
    /// With --serve: the certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "serve")]
    key: Option<PathBuf>,
    /// With --serve, when started as root: the user whose rights the server has
    #[arg(long, value_name = "USER", default_value = "nobody")]
    user: String,
    /// Time between samples
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    interval: Quantity<Duration>,
    /// No colours; the variable NO_COLOR says the same
    #[arg(long)]
    no_colour: bool,
    /// Print a table with rates over one interval, and end
    #[arg(long, conflicts_with_all = ["json", "serve"])]
    once: bool,
    /// The same as JSON (schemas/top.schema.json)
    #[arg(long, conflicts_with = "serve")]
    json: bool,
    /// Directory in which accelerators keep their control sockets
    #[arg(long, hide = true, value_name = "DIR", default_value = io::INSTANCE_DIRECTORY)]
    state_directory: PathBuf,
    /// Be the server at this address: standard input is the way to the other process
    #[arg(long, hide = true, value_name = "ADDRESS")]
    be_server: Option<SocketAddr>,
}

/// Runs `cellerator top`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let result = match (args.be_server, args.serve, &args.connect) {
        (Some(listen), _, _) => be_server(listen),
        (_, Some(listen), _) => return serve(args, listen).context("top"),
        (_, _, Some(at)) => remote(args, at).and_then(|source| {
            only_look_and_tell(&args.state_directory)?;
            look(args, at, source)
        }),
        _ => only_look(&args.state_directory, &[])
            .and_then(|()| look(args, "this machine", Local::new(&args.state_directory, Vec::new()))),
    };
    result.map(|()| ExitCode::SUCCESS).context("top")
}

fn remote(args: &Args, at: &str) -> Result<Remote> {
    let variable = std::env::var("CELLERATOR_TOP_TOKEN").ok();
    let token = match (&args.token_file, variable) {
        (Some(path), _) => top::read_token(path)?,
        (None, Some(token)) => token,
        (None, None) => bail!("--connect needs the token: --token-file FILE, or CELLERATOR_TOP_TOKEN"),
    };
    Ok(Remote::new(at, args.certificate.as_deref().unwrap_or(Path::new("")), token)?)
}

fn look<S: Source + Send + 'static>(args: &Args, place: &str, source: S) -> Result<()> {
    let interval = args.interval.0.max(INTERVAL_MIN);
    if args.json || args.once {
        let mut report = top::gather(source, interval)?;
        let is_there = |name: &&String| report.accelerators.iter().any(|one| one.name == **name);
        if let Some(missing) = args.names.iter().find(|name| !is_there(name)) {
            bail!("no accelerator '{missing}' at {place}");
        }
        report.accelerators.retain(|one| args.names.is_empty() || args.names.contains(&one.name));
        let lines = if args.json {
            vec![serde_json::to_string_pretty(&report).context("as JSON")?]
        } else {
            top::table(&report)
        };
        if lines.is_empty() {
            bail!("no accelerator is running, or this user may not see it");
        }
        say(&lines.join("\n"));
        return Ok(());
    }
    if !top::is_terminal() {
        bail!("this is no terminal: --once prints a table, --json JSON");
    }
    // https://no-color.org: any value but an empty one.
    let has_no_colour =
        args.no_colour || std::env::var_os("NO_COLOR").is_some_and(|value| value != OsStr::new(""));
    let settings = Live {
        place: place.to_owned(),
        interval,
        has_colour: !has_no_colour,
        name: args.names.first().cloned(),
    };
    Ok(top::live(source, &settings)?)
}

/// Starts the server without any rights, and answers it.
fn serve(args: &Args, listen: SocketAddr) -> Result<ExitCode> {
    let file = |path: &Option<PathBuf>| path.clone().unwrap_or_default();
    let secrets = Secrets::read(&file(&args.certificate), &file(&args.key), &file(&args.token_file))?;
    let mut gate = Gate::new(&args.state_directory, args.names.clone());
    let arguments = ["top", "--be-server", &listen.to_string()];
    serve_beside(&arguments, &args.user, &args.state_directory, |server| gate.answer(server, Some(&secrets)))
}

fn be_server(listen: SocketAddr) -> Result<()> {
    Ok(top::serve(listen, reader()?, |at| say_ready(&format!("top --connect {at}")))?)
}
