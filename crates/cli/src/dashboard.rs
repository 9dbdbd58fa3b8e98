//! `cellerator dashboard`: a page in a browser. Two processes, as `cellerator metrics` is.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use telemetry::Gatherer;

use crate::metrics::{gather, reader, say};

/// Arguments of `cellerator dashboard`.
#[derive(clap::Args)]
pub struct Args {
    /// The accelerators, by --name, interfaces as WIRED-MOBILE, or process number [default: all that run]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Address and port to serve http://ADDRESS/ at: one of this machine alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9470")]
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

/// Runs `cellerator dashboard`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let gatherer = || Gatherer::of_overviews(&args.state_directory, args.names.clone());
    if args.serve {
        serve(args.listen)
    } else {
        gather("dashboard", (args.listen, &args.user), &mut gatherer())
    }
    .map_err(|error| format!("dashboard: {error}"))
}

fn serve(listen: SocketAddr) -> Result<ExitCode, String> {
    let ready = |at: SocketAddr| say(&format!("dashboard at http://{at}/"));
    telemetry::serve_dashboard(listen, reader()?, ready).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}
