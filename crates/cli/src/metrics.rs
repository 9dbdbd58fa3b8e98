//! `cellerator metrics`.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context, Result};
use telemetry::Gatherer;

use crate::served::{Served, reader, say_ready, serve_beside};

/// Arguments of `cellerator metrics`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    served: Served,
    /// Address and port to serve http://ADDRESS/metrics at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9469")]
    listen: SocketAddr,
}

/// Runs `cellerator metrics`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let served = &args.served;
    if served.serve {
        serve(args.listen)
    } else {
        let mut gatherer = Gatherer::new(&served.state_directory, served.names.clone());
        let arguments = ["metrics", "--serve", "--listen", &args.listen.to_string()];
        serve_beside(&arguments, &served.user, &served.state_directory, |server| gatherer.answer(server))
    }
    .context("metrics")
}

fn serve(listen: SocketAddr) -> Result<ExitCode> {
    let ready = |at: SocketAddr| say_ready(&format!("metrics at http://{at}/metrics"));
    telemetry::serve(listen, reader()?, ready)?;
    Ok(ExitCode::SUCCESS)
}
