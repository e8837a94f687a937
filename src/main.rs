//! The `rkubelet` executable: flags, configuration, run.

fn main() {}
