//! The `rkubelet` executable; see the library, which holds everything, for the map.

use std::process::ExitCode;

fn main() -> ExitCode {
    rkubelet::main()
}
