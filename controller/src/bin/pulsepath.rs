//! The command line client.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller::cli::main()
}
