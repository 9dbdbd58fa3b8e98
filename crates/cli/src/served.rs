//! Servers of what the control sockets tell, `cellerator metrics`, `cellerator dashboard` and `cellerator top --serve`:
//! two processes. One may use the control sockets, speaks to nobody else and has no capability; the other one speaks to
//! the network and may do nothing: it opens no file and makes no connection.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use io::Confinement;
use telemetry::User;

use crate::looking::only_look;

/// SIGKILL, for the server when this process ends.
const KILL: i32 = 9;

/// Arguments of both.
#[derive(clap::Args)]
pub struct Served {
    /// The accelerators, by --name, interfaces as WIRED-MOBILE, or process number [default: all that run]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// User whose rights the server has when started as root
    #[arg(long, value_name = "USER", default_value = "nobody")]
    pub user: String,
    /// Directory in which accelerators keep their control sockets
    #[arg(long, hide = true, value_name = "DIR", default_value = io::INSTANCE_DIRECTORY)]
    pub state_directory: PathBuf,
    /// Be the server: standard input is the way to the other process
    #[arg(long, hide = true)]
    pub serve: bool,
}

/// Starts this program with `arguments` as a server without any rights, and has `answer` answer it until it has gone.
/// `state_directory` is where accelerators are.
pub fn serve_beside<E: std::error::Error + Send + Sync + 'static>(
    arguments: &[&str],
    user_name: &str,
    state_directory: &Path,
    answer: impl FnOnce(&UnixStream) -> Result<(), E>,
) -> Result<ExitCode> {
    let user = if telemetry::is_root() { Some(User::find(user_name)?) } else { None };
    let (own, other) = UnixStream::pair()?;
    // Whatever the program's own file is called by then, and whoever may look at the path to it.
    let mut server = Command::new("/proc/self/exe");
    server.args(arguments);
    server.env_clear().current_dir("/").stdin(Stdio::from(OwnedFd::from(other)));
    if let Some(user) = user {
        // Further groups are given up with it.
        server.uid(user.uid).gid(user.gid);
        say(&format!("the server runs as {user_name} ({}:{})", user.uid, user.gid));
    }
    io::set_death_signal(&mut server, KILL);
    let started = server.spawn().context("cannot start the server");
    // With it goes the other end, which the server alone is to have.
    drop(server);
    let mut server = started?;
    // Before the other one says a word.
    only_look(state_directory, &[])?;
    let answered = answer(&own);
    drop(own);
    let ended = server.wait()?;
    answered?;
    match ended.code() {
        Some(0) => Ok(ExitCode::SUCCESS),
        // It has said why, in a line.
        Some(1) => Ok(ExitCode::FAILURE),
        _ => bail!("the server has ended: {ended}"),
    }
}

/// The way to the other process, which is standard input. From here on this process is the server.
pub fn reader() -> Result<UnixStream> {
    io::forgo_privileges()?;
    let input = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned();
    let input = UnixStream::from(input?);
    let watched = input.try_clone()?;
    let watch = move || {
        io::await_hang_up(std::os::fd::AsFd::as_fd(&watched));
        // Whoever answers has ended, however that came: nobody is left to serve.
        std::process::exit(0);
    };
    std::thread::Builder::new().name("reader".to_owned()).spawn(watch)?;
    Ok(input)
}

/// Says that the server is there, once it can do nothing but serve: what it needs is open.
pub fn say_ready(line: &str) {
    match io::confine(&io::Allowed::default()) {
        Ok(Confinement::Whole { .. }) => {}
        Ok(Confinement::Files) => {
            say("this kernel cannot keep the server from making connections: Linux 6.7 can");
        }
        Ok(Confinement::Nothing) => {
            say("this kernel has no Landlock: the server can open what its user can");
        }
        Err(error) => say(&format!("the server can open what its user can: {error}")),
    }
    say(line);
}

/// Says a line.
pub fn say(line: &str) {
    // A reader who has gone away is no error.
    drop(writeln!(std::io::stdout(), "{line}"));
}
