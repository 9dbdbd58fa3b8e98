//! `cellerator dashboard`: a page in a browser.

use std::net::SocketAddr;
use std::process::ExitCode;

use telemetry::Gatherer;

use crate::served::{Served, gather, reader, say};

/// Arguments of `cellerator dashboard`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    served: Served,
    /// Address and port to serve http://ADDRESS/ at: one of this machine alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9470")]
    listen: SocketAddr,
}

/// Runs `cellerator dashboard`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let served = &args.served;
    // Before there is a process for it.
    telemetry::check_dashboard_address(args.listen).map_err(|error| format!("dashboard: {error}"))?;
    if served.serve {
        serve(args.listen)
    } else {
        let mut gatherer = Gatherer::of_overviews(&served.state_directory, served.names.clone());
        gather("dashboard", (args.listen, &served.user), &mut gatherer)
    }
    .map_err(|error| format!("dashboard: {error}"))
}

fn serve(listen: SocketAddr) -> Result<ExitCode, String> {
    let ready = |at: SocketAddr| say(&format!("dashboard at http://{at}/"));
    telemetry::serve_dashboard(listen, reader()?, ready).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}
