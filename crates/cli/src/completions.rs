//! `cellerator completions`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};

use crate::Cli;

/// Arguments of `cellerator completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: ShellArg,
}

/// Shells for which a script is written and tested.
#[derive(Clone, Copy, ValueEnum)]
enum ShellArg {
    /// bash with the package bash-completion
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Runs `cellerator completions`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    // A reader who has gone away is no reason to complain.
    drop(std::io::stdout().write_all(&script(args.shell)));
    Ok(ExitCode::SUCCESS)
}

/// The script that completes every command, option and value.
fn script(shell: ShellArg) -> Vec<u8> {
    let shell = match shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    generate(shell, &mut Cli::command(), "cellerator", &mut text);
    text
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn text(shell: ShellArg) -> String {
        String::from_utf8(script(shell)).unwrap()
    }

    #[test]
    fn scripts_know_every_shown_command() {
        for shell in [ShellArg::Bash, ShellArg::Zsh, ShellArg::Fish] {
            let text = text(shell);
            for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(text.contains(command.get_name()), "{} is missing", command.get_name());
            }
            assert!(text.contains("window-policy") && text.contains("opportunistic"), "options and values");
        }
        assert!(text(ShellArg::Zsh).starts_with("#compdef cellerator\n"));
    }

    /// Completions that bash offers for the words, of which the last one is being written.
    fn offered(words: &str) -> String {
        let ask = format!(
            "COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _cellerator cellerator \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = bash.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(format!("{}\n{ask}\n", text(ShellArg::Bash)).as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn bash_completes_commands_options_and_values() {
        assert_eq!(offered("cellerator rel"), "reload");
        assert_eq!(offered("cellerator run --window-p"), "--window-policy");
        assert_eq!(offered("cellerator run --steering ''"), "auto tcx rules");
        assert!(offered("cellerator trace g").contains("generate"));
    }
}
