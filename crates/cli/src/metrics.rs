//! `cellerator metrics`: two processes. One may use the control sockets and speaks to nobody else; the other one
//! speaks to the network and may do nothing.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use telemetry::{Gatherer, User};

/// SIGKILL, for the server when this process ends.
const KILL: i32 = 9;

/// Arguments of `cellerator metrics`.
#[derive(clap::Args)]
pub struct Args {
    /// The accelerators, by --name, interfaces as WIRED-MOBILE, or process number [default: all that run]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Address and port to serve http://ADDRESS/metrics at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9469")]
    listen: SocketAddr,
    /// When started as root: the user whose rights the server has
    #[arg(long, value_name = "USER", default_value = "nobody")]
    user: String,
    /// Where accelerators keep their control sockets
    #[arg(long, hide = true, value_name = "DIR", default_value = io::INSTANCE_DIRECTORY)]
    state_directory: PathBuf,
    /// Be the server: standard input is the way to the other process
    #[arg(long, hide = true)]
    serve: bool,
}

/// Runs `cellerator metrics`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    if args.serve { serve(args.listen) } else { gather(args) }.map_err(|error| format!("metrics: {error}"))
}

/// Starts the server without any rights, and answers it.
fn gather(args: &Args) -> Result<ExitCode, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let user =
        if telemetry::is_root() { Some(User::find(&args.user).map_err(|error| text(&error))?) } else { None };
    let (own, other) = UnixStream::pair().map_err(|error| text(&error))?;
    // Whatever the program's own file is called by then, and whoever may look at the path to it.
    let mut server = Command::new("/proc/self/exe");
    server.args(["metrics", "--serve", "--listen", &args.listen.to_string()]);
    server.env_clear().current_dir("/").stdin(Stdio::from(OwnedFd::from(other)));
    if let Some(user) = user {
        // Further groups are given up with it.
        server.uid(user.uid).gid(user.gid);
        say(&format!("the server runs as {} ({}:{})", args.user, user.uid, user.gid));
    }
    io::set_death_signal(&mut server, KILL);
    let started = server.spawn().map_err(|error| format!("cannot start the server: {error}"));
    // With it goes the other end, which the server alone is to have.
    drop(server);
    let mut server = started?;
    let answered = Gatherer::new(Path::new(&args.state_directory), args.names.clone()).answer(&own);
    drop(own);
    let ended = server.wait().map_err(|error| text(&error))?;
    answered.map_err(|error| text(&error))?;
    if ended.success() { Ok(ExitCode::SUCCESS) } else { Err(format!("the server has ended: {ended}")) }
}

fn serve(listen: SocketAddr) -> Result<ExitCode, String> {
    let input = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned();
    let reader = UnixStream::from(input.map_err(|error| error.to_string())?);
    let ready = |at: SocketAddr| say(&format!("metrics at http://{at}/metrics"));
    telemetry::serve(listen, reader, ready).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn say(line: &str) {
    // A reader who has gone away is no error.
    drop(writeln!(std::io::stdout(), "{line}"));
}
